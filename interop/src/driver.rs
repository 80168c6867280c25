//! The line protocol between a scenario and the programs it drives.
//!
//! One command a line on standard input, exactly one line of answer each:
//! `ok` with an optional result, or `error` with the reason. The end of input
//! ends the program. Both implementations offer the same commands, so a
//! scenario does not know which one it talks to.
//!
//! | a producer understands | |
//! |---|---|
//! | `await-start N` | waits until its data source [`PACKETS`](crate::config::PACKETS) was started N times; what a config lists before it has started then, too |
//! | `await-stop N` | the same for stops |
//! | `slices N` | writes N rounds of slice, instant and counter, then the instant `last`, and commits them |
//! | `packet BYTES` | writes one packet with that much text and waits until the service has it |
//!
//! | a consumer understands | |
//! |---|---|
//! | `start FILE` | starts a session with the encoded config in FILE; answered when all known data sources have started |
//! | `flush` | answers `true` when every data source flushed |
//! | `stop` | stops, answered when all data sources have stopped |
//! | `read FILE` | writes what the buffers hold to FILE |
//! | `end` | closes the session |

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// A command that would take longer fails instead.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a program can be asked to do.
pub trait Role {
    /// Runs one command and returns what to say after `ok`.
    ///
    /// # Errors
    ///
    /// What to say after `error`.
    fn run(&mut self, words: &[&str]) -> Result<String, String>;
}

/// Answers the commands on standard input until it ends.
#[must_use]
pub fn serve(role: Result<Box<dyn Role>, String>) -> ExitCode {
    let mut role = match role {
        Ok(role) => role,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match role.run(&words) {
            Ok(answer) => format!("ok {answer}"),
            Err(message) => format!("error {message}"),
        };
        if writeln!(stdout, "{}", answer.trim_end()).is_err() || stdout.flush().is_err() {
            break;
        }
    }
    drop(stdout);
    // Without the usual end: the C++ core's threads are still running, and its
    // static destructors must not run underneath them.
    std::process::exit(0)
}

/// How often a data source was started and stopped.
#[derive(Debug, Default)]
pub struct Starts {
    counts: Mutex<(u64, u64)>,
    changed: Condvar,
}

impl Starts {
    /// It was started.
    pub fn started(&self) {
        self.change(|counts| counts.0 += 1);
    }

    /// It was stopped.
    pub fn stopped(&self) {
        self.change(|counts| counts.1 += 1);
    }

    /// Waits until it was started this often.
    ///
    /// # Errors
    ///
    /// When that does not happen.
    pub fn await_starts(&self, starts: u64) -> Result<String, String> {
        self.wait(|counts| counts.0 >= starts)
    }

    /// Waits until it was stopped this often.
    ///
    /// # Errors
    ///
    /// When that does not happen.
    pub fn await_stops(&self, stops: u64) -> Result<String, String> {
        self.wait(|counts| counts.1 >= stops)
    }

    fn change(&self, change: impl FnOnce(&mut (u64, u64))) {
        if let Ok(mut counts) = self.counts.lock() {
            change(&mut counts);
        }
        self.changed.notify_all();
    }

    fn wait(&self, reached: impl Fn(&(u64, u64)) -> bool) -> Result<String, String> {
        let counts = self.counts.lock().map_err(|error| error.to_string())?;
        let (counts, timeout) = self
            .changed
            .wait_timeout_while(counts, PATIENCE, |counts| !reached(counts))
            .map_err(|error| error.to_string())?;
        if timeout.timed_out() {
            return Err(format!("{} starts, {} stops", counts.0, counts.1));
        }
        Ok(String::new())
    }
}

/// Reads a number of a command.
///
/// # Errors
///
/// When it is none.
pub fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("not a number: {word}"))
}

/// The answer to a command nobody knows.
///
/// # Errors
///
/// Always.
pub fn unknown(words: &[&str]) -> Result<String, String> {
    Err(format!("unknown command: {}", words.join(" ")))
}
