//! The line protocol between a scenario and the programs it drives.
//!
//! One command a line on standard input, exactly one line of answer each:
//! `ok` with an optional result, or `error` with the reason. The end of input
//! ends the program. Both implementations offer the same commands, so a
//! scenario does not know which one it talks to.
//!
//! | a producer understands | |
//! |---|---|
//! | `await-start N` | waits until its data source [`PACKETS`] was started N times; what a config lists before it has started then, too |
//! | `await-stop N` | the same for stops |
//! | `slices N` | writes N rounds of slice, instant and counter, then the instant `last`, and commits them |
//! | `script` | traces what `script.rs` of either side says, from threads with names |
//! | `packet BYTES` | writes one packet with that much text and waits until the service has it |
//! | `numbers FROM COUNT` | writes that many packets with a number as text, filled up to 100 bytes, and waits until the service has them |
//! | `text WORD` | writes one packet with that text and waits until the service has it |
//! | `trigger NAME` | activates a trigger |
//! | `hold-stops` | from now on data sources do not stop until told to |
//! | `release-stops` | tells them |
//!
//! | a consumer understands | |
//! |---|---|
//! | `start FILE` | starts a session with the encoded config in FILE; answered when all known data sources have started |
//! | `flush` | answers `true` when every data source flushed |
//! | `stop` | stops, answered when all data sources have stopped |
//! | `read FILE` | writes what the buffers hold to FILE |
//! | `end` | closes the session |
//!
//! The official SDK can do no more than that. Our consumer and upstream's own
//! endpoint understand besides:
//!
//! | a full consumer understands | |
//! |---|---|
//! | `start FILE TRACE` | the service writes the trace into TRACE |
//! | `enable FILE [TRACE]` | creates a session that is not to start yet |
//! | `await-started` | waits until all data sources have started |
//! | `start-deferred` | starts a session that was created with `enable`, answered as `start` |
//! | `change FILE` | changes the session's config |
//! | `await-end` | waits until the session has ended by itself and answers why, if it failed |
//! | `await-clone-trigger` | waits for a trigger that asks to clone and answers the session's number and the trigger's name |
//! | `clone SESSION [TRACE]` | clones a session by number or name, and answers the low and the high half of the copy's UUID, and `file` if the service wrote it into TRACE |
//! | `detach KEY`, `attach KEY` | answers whether it could |
//! | `sessions` | answers NUMBER:STATE:NAME of each |
//!
//! Our producer alone understands `more`: what the official SDK has no words for.
//!
//! Our consumer alone answers to `sources` with the names of all registered data
//! sources.

#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// The data source of the producers whose packets have any size.
pub const PACKETS: &str = "ferretto.interop.packets";

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

/// What a producer says whose data source no session has started.
pub const NOT_STARTED: &str = "the data source is not started";

/// How often a data source was started and stopped, and whether it may stop.
#[derive(Debug, Default)]
pub struct Starts {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    starts: u64,
    stops: u64,
    hold_stops: bool,
}

impl Starts {
    /// It was started.
    pub fn started(&self) {
        self.change(|state| state.starts += 1);
    }

    /// It is to stop.
    pub fn stopped(&self) {
        self.change(|state| state.stops += 1);
    }

    /// Says whether [`Self::await_release`] waits.
    pub fn hold_stops(&self, hold: bool) -> String {
        self.change(|state| state.hold_stops = hold);
        String::new()
    }

    /// Waits until stops are not held any more.
    pub fn await_release(&self) {
        let _ = self.wait(|state| !state.hold_stops);
    }

    /// Whether stops are held.
    pub fn holds_stops(&self) -> bool {
        self.state.lock().is_ok_and(|state| state.hold_stops)
    }

    /// Waits until it was started this often.
    ///
    /// # Errors
    ///
    /// When that does not happen.
    pub fn await_starts(&self, starts: u64) -> Result<String, String> {
        self.wait(|state| state.starts >= starts)
    }

    /// Waits until it was told to stop this often.
    ///
    /// # Errors
    ///
    /// When that does not happen.
    pub fn await_stops(&self, stops: u64) -> Result<String, String> {
        self.wait(|state| state.stops >= stops)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        if let Ok(mut state) = self.state.lock() {
            change(&mut state);
        }
        self.changed.notify_all();
    }

    fn wait(&self, reached: impl Fn(&State) -> bool) -> Result<String, String> {
        let state = self.state.lock().map_err(|error| error.to_string())?;
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !reached(state))
            .map_err(|error| error.to_string())?;
        if timeout.timed_out() {
            return Err(format!("{} starts, {} stops", state.starts, state.stops));
        }
        Ok(String::new())
    }
}

/// The text of the command `packet`.
#[must_use]
pub fn letters(length: usize) -> String {
    ('a'..='z').cycle().take(length).collect()
}

/// The texts of the command `numbers`.
#[must_use]
pub fn numbered(from: u64, count: u64) -> Vec<String> {
    let numbers = from..from + count;
    numbers.map(|number| format!("{number:.<100}")).collect()
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
