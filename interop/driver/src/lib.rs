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
//! | `await-flush N` | and for flushes |
//! | `slices N` | writes N rounds of slice, instant and counter, then the instant `last`, and commits them |
//! | `script` | traces what `script.rs` of either side says, from threads with names |
//! | `packet BYTES` | writes one packet with that much text and waits until the service has it |
//! | `numbers FROM COUNT` | writes that many packets with a number as text, filled up to 100 bytes, and waits until the service has them |
//! | `text WORD` | writes one packet with that text and waits until the service has it |
//! | `fill FROM COUNT` | writes packets as `numbers`, but waits for nothing |
//! | `known` | writes one packet that says `new` if those before are not to be relied upon, and `known` otherwise, answers the same, and waits until the service has it |
//! | `tag` | writes one packet to each session with the text that its config has for the data source, and waits until the service has it |
//! | `tags` | answers the texts of all configs that came |
//! | `trigger NAME` | activates a trigger |
//! | `hold-stops`, `hold-flushes` | from now on data sources do not stop, or are not flushed, until told to |
//! | `release` | tells them |
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

/// A program that can be asked to do things.
pub trait Role {
    /// Runs one command and returns what to say after `ok`.
    ///
    /// # Errors
    ///
    /// The text after `error`.
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

/// The answer of a producer whose data source no session has started.
pub const NOT_STARTED: &str = "the data source is not started";

/// The messages to a data source, and the answers that it may give.
#[derive(Debug, Default)]
pub struct Life {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    told: [u64; 3],
    /// Set if answers to these wait.
    held: [bool; 3],
    tags: Vec<String>,
}

/// A message to a data source.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// It was started.
    Start = 0,
    /// It is to stop.
    Stop = 1,
    /// The instance has to flush.
    Flush = 2,
}

impl Life {
    /// It is set up with a config that has this text for it.
    pub fn set_up(&self, tag: String) {
        self.change(|state| state.tags.push(tag));
    }

    /// The texts of all configs.
    pub fn tags(&self) -> String {
        self.state
            .lock()
            .map_or(String::new(), |state| state.tags.join(" "))
    }

    /// It was told. Returns whether to wait with the answer for [`Self::await_release`].
    pub fn told(&self, what: Told) -> bool {
        self.change(|state| {
            state.told[what as usize] += 1;
            state.held[what as usize]
        })
    }

    /// From now on answers wait.
    pub fn hold(&self, what: Told) -> String {
        self.change(|state| state.held[what as usize] = true);
        String::new()
    }

    /// Answers do not wait any more.
    pub fn release(&self) -> String {
        self.change(|state| state.held = [false; 3]);
        String::new()
    }

    /// Waits until answers do not wait any more.
    pub fn await_release(&self) {
        let _ = self.wait(|state| state.held == [false; 3]);
    }

    /// Waits until it was told this often.
    ///
    /// # Errors
    ///
    /// When that does not happen.
    pub fn await_told(&self, what: Told, count: u64) -> Result<String, String> {
        self.wait(|state| state.told[what as usize] >= count)
    }

    fn change<T: Default>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = self
            .state
            .lock()
            .map_or(T::default(), |mut state| change(&mut state));
        self.changed.notify_all();
        result
    }

    fn wait(&self, reached: impl Fn(&State) -> bool) -> Result<String, String> {
        let state = self.state.lock().map_err(|error| error.to_string())?;
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !reached(state))
            .map_err(|error| error.to_string())?;
        if timeout.timed_out() {
            return Err(format!("starts, stops, flushes: {:?}", state.told));
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

/// The reply to an unknown command.
///
/// # Errors
///
/// Always.
pub fn unknown(words: &[&str]) -> Result<String, String> {
    Err(format!("unknown command: {}", words.join(" ")))
}
