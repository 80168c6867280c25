//! The official SDK as a child process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::service::Sockets;

/// How long one command may take before the scenario fails. A scenario that
/// works never comes near it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `official` process. Killed when dropped.
#[derive(Debug)]
pub struct Official {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Official {
    /// Starts the SDK as a producer of track events and of the data source
    /// `ferretto.interop.packets`. It keeps trying to connect until a service
    /// is there.
    ///
    /// # Panics
    ///
    /// When the program cannot be started.
    #[must_use]
    pub fn producer(program: &str, sockets: &Sockets) -> Self {
        Self::start(program, "producer", sockets)
    }

    /// Starts the SDK as a consumer.
    ///
    /// # Panics
    ///
    /// When the program cannot be started.
    #[must_use]
    pub fn consumer(program: &str, sockets: &Sockets) -> Self {
        Self::start(program, "consumer", sockets)
    }

    fn start(program: &str, role: &str, sockets: &Sockets) -> Self {
        let mut child = Command::new(program)
            .arg(role)
            .envs(sockets.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the official SDK's driver starts");
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
        writeln!(input, "{command}").expect("the official SDK's driver is alive");
        input.flush().expect("the official SDK's driver is alive");
    }

    /// Waits for the answer to the oldest unanswered command.
    ///
    /// # Panics
    ///
    /// When the answer is an error or does not come.
    pub fn answer(&mut self) -> String {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(line) => match line.strip_prefix("ok") {
                Some(rest) => rest.trim().to_owned(),
                None => panic!("the official SDK answered: {line}"),
            },
            Err(error) => panic!("no answer from the official SDK: {error}"),
        }
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

    /// Starts a session with an encoded `TraceConfig`, kept in `folder`.
    ///
    /// # Panics
    ///
    /// As [`Self::run`].
    pub fn start_session(&mut self, folder: &Path, config: &[u8]) {
        let path = folder.join("config.pb");
        std::fs::write(&path, config).expect("the config is written");
        self.run(&format!("start {}", path.display()));
    }

    /// Stops the session and reads its whole trace, through `folder`.
    ///
    /// # Panics
    ///
    /// As [`Self::run`].
    pub fn stop_and_read(&mut self, folder: &Path) -> Vec<u8> {
        let path = folder.join("official.pftrace");
        self.run("stop");
        self.run(&format!("read {}", path.display()));
        std::fs::read(&path).expect("the trace was written")
    }

    /// The process id, as the trace names it.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Kills the process with SIGKILL, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Official {
    fn drop(&mut self) {
        self.kill();
    }
}
