//! The programs of a scenario, each a process of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The time that one command may take before the scenario fails. A scenario that works never comes
/// near it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The side whose code a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This project's.
    Ours,
    /// Upstream's.
    Official,
}

/// The library that a program is instrumented with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// This project's library.
    Ours,
    /// Upstream's Rust package on its C++ core.
    Official,
    /// Upstream's Rust package on this project's C interface.
    OfficialOnOurs,
}

impl From<Whose> for Sdk {
    fn from(whose: Whose) -> Self {
        match whose {
            Whose::Ours => Self::Ours,
            Whose::Official => Self::Official,
        }
    }
}

/// The programs of both implementations, built with the tests.
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    /// Drives our producer, consumer and service.
    pub ours: &'static str,
    /// Drives the official producer and consumer.
    pub official: &'static str,
}

/// A running program. Killed when dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Peer {
    pub(crate) fn start(mut command: Command, environment: [(&str, OsString); 2]) -> Self {
        let mut child = command
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            input,
            answers,
        }
    }

    /// Sends a command without waiting for its answer.
    ///
    /// # Panics
    ///
    /// When the process is gone.
    pub fn send(&mut self, command: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{command}").expect("the program is alive");
        input.flush().expect("the program is alive");
    }

    /// Waits for the answer to the oldest unanswered command.
    ///
    /// # Panics
    ///
    /// When the answer is an error or does not come.
    pub fn answer(&mut self) -> String {
        self.try_answer()
            .unwrap_or_else(|error| panic!("the program answered: {error}"))
    }

    fn try_answer(&mut self) -> Result<String, String> {
        let line = self.answers.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|error| panic!("no answer: {error}"));
        match line.strip_prefix("ok") {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(line),
        }
    }

    /// Checks that a command that was sent has not been answered so far.
    ///
    /// # Panics
    ///
    /// When it has.
    pub fn assert_busy(&self) {
        let answer = self.answers.try_recv();
        assert_eq!(answer, Err(TryRecvError::Empty), "it is answered already");
    }

    /// Sends a command that may fail, and waits for its answer.
    ///
    /// # Errors
    ///
    /// The output of the program.
    ///
    /// # Panics
    ///
    /// When the process is gone or the answer does not come.
    pub fn try_run(&mut self, command: &str) -> Result<String, String> {
        self.send(command);
        self.try_answer()
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Panics
    ///
    /// As [`Self::send`] and [`Self::answer`].
    pub fn run(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    /// The process id, as the trace names it.
    #[must_use]
    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Has the process do nothing until [`Self::resume`].
    ///
    /// # Panics
    ///
    /// When it is gone.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Has the process go on.
    ///
    /// # Panics
    ///
    /// When it is gone.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the program is alive");
    }

    /// Kills the process with SIGKILL, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}
