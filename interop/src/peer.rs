//! The programs of a scenario, each in its own process.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The time limit of a command. Commands normally take much less.
const PATIENCE: Duration = Duration::from_secs(120);

/// The implementation that a program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This project.
    Ours,
    /// Upstream.
    Official,
}

/// The library with which a program is instrumented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// This project's library.
    Ours,
    /// Upstream's Rust package on its C++ core.
    Official,
    /// Upstream's Rust package on this project's C interface.
    OfficialOnOurs,
}

impl From<Side> for Sdk {
    fn from(whose: Side) -> Self {
        match whose {
            Side::Ours => Self::Ours,
            Side::Official => Self::Official,
        }
    }
}

/// The programs of both implementations, built with the tests.
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    /// Our producer, consumer and service.
    pub ours: &'static str,
    /// The official producer and consumer.
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
    /// If the process has ended.
    pub fn send(&mut self, command: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{command}").expect("the program is alive");
        input.flush().expect("the program is alive");
    }

    /// Waits for the answer to the oldest unanswered command.
    ///
    /// # Panics
    ///
    /// If the answer is an error or does not arrive.
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

    /// Checks that a sent command is not answered yet.
    ///
    /// # Panics
    /// If it is answered.
    pub fn assert_busy(&self) {
        let answer = self.answers.try_recv();
        assert_eq!(answer, Err(TryRecvError::Empty), "it is answered already");
    }

    /// Sends a command that may fail, and waits for its answer.
    ///
    /// # Errors
    ///
    /// The error of the program.
    ///
    /// # Panics
    ///
    /// If the process has ended or the answer does not arrive.
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

    /// Returns the process id, as in the trace.
    #[must_use]
    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Stops the process until [`Self::resume`].
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the process.
    ///
    /// # Panics
    ///
    /// If the process has ended.
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
