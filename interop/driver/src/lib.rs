//! The line protocol between a scenario and its programs.
//!
//! Each line on standard input is a command, answered by exactly one line: `ok` with an optional
//! result, or `error` with the reason. The end of input ends the program. Both implementations have
//! the same commands, so scenarios do not depend on the implementation.
//!
//! | command of a producer | |
//! |---|---|
//! | `await-start N` | waits until its data source [`PACKETS`] was started N times, and with it all data sources before it in the config |
//! | `await-stop N` | waits for N stops |
//! | `await-flush N` | waits for N flushes |
//! | `slices N` | writes N rounds of slice, instant and counter, then the instant `last`, and commits them |
//! | `script` | runs the trace points of `script.rs` on named threads |
//! | `packet BYTES` | writes one packet with a text of this size and waits until the service has received it |
//! | `numbers FROM COUNT` | writes COUNT packets with a number as text, padded to 100 bytes, and waits until the service has received them |
//! | `text WORD` | writes one packet with this text and waits until the service has received it |
//! | `fill FROM COUNT` | writes packets like `numbers`, without waiting |
//! | `known` | writes one packet with `new` if it must not depend on earlier ones, otherwise with `known`, answers the same, and waits until the service has received it |
//! | `tag` | writes one packet to each session with the text in its config, and waits until the service has received it |
//! | `tags` | answers the texts of all received configs |
//! | `trigger NAME` | activates a trigger |
//! | `hold-stops`, `hold-flushes` | data sources delay the answers to stops or flushes |
//! | `release` | data sources give the delayed answers |
//!
//! | command of a consumer | |
//! |---|---|
//! | `start FILE` | starts a session with the encoded config in FILE; answers when all known data sources have started |
//! | `flush` | answers `true` when every data source has flushed |
//! | `stop` | stops, and answers when all data sources have stopped |
//! | `read FILE` | writes the contents of the buffers to FILE |
//! | `end` | closes the session |
//!
//! The official SDK supports only these. Our consumer and upstream's own endpoint have further
//! commands:
//!
//! | command of a full consumer | |
//! |---|---|
//! | `start FILE TRACE` | like `start`; the service writes the trace to TRACE |
//! | `enable FILE [TRACE]` | creates a session without starting it |
//! | `await-started` | waits until all data sources have started |
//! | `start-deferred` | starts a session created with `enable`, and answers like `start` |
//! | `change FILE` | changes the session's config |
//! | `await-end` | waits until the session has ended by itself, and answers the error, if any |
//! | `await-clone-trigger` | waits for a clone trigger, and answers the session's id and the trigger's name |
//! | `clone SESSION [TRACE]` | clones a session by id or name, and answers the low and the high half of the clone's UUID, and `file` if the service wrote it to TRACE |
//! | `detach KEY`, `attach KEY` | answers `true` on success, otherwise `false` |
//! | `sessions` | answers ID:STATE:NAME of each session |
//!
//! Only our producer has `more`: trace points that the official SDK does not support.
//!
//! Only our consumer has `sources`: it answers the names of all registered data sources.

#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// The producers' data source for packets of any size.
pub const PACKETS: &str = "ferretto.interop.packets";

/// The time limit of commands.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A program that executes commands.
pub trait Role {
    /// Runs one command and returns the text after `ok`.
    ///
    /// # Errors
    ///
    /// Returns the text after `error`.
    fn run(&mut self, words: &[&str]) -> Result<String, String>;
}

/// Executes the commands on standard input until its end.
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
    // Skips the usual exit: the C++ core's threads are still running, so its static destructors
    // must not run.
    std::process::exit(0)
}

/// The error of a producer whose data source is not started.
pub const NOT_STARTED: &str = "the data source is not started";

/// The callbacks of a data source, and its delayed answers.
#[derive(Debug, Default)]
pub struct Lifecycle {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    called: [u64; 3],
    /// True for callbacks whose answers are delayed.
    held: [bool; 3],
    tags: Vec<String>,
}

/// A callback of a data source.
#[derive(Debug, Clone, Copy)]
pub enum Callback {
    /// The instance started.
    Start = 0,
    /// The instance must stop.
    Stop = 1,
    /// The instance must flush.
    Flush = 2,
}

impl Lifecycle {
    /// Records the text in the config of a new instance.
    pub fn set_up(&self, tag: String) {
        self.change(|state| state.tags.push(tag));
    }

    /// Returns the texts of all configs.
    pub fn tags(&self) -> String {
        self.state
            .lock()
            .map_or(String::new(), |state| state.tags.join(" "))
    }

    /// Records a callback. Returns true if the answer must wait for [`Self::await_release`].
    pub fn called(&self, what: Callback) -> bool {
        self.change(|state| {
            state.called[what as usize] += 1;
            state.held[what as usize]
        })
    }

    /// Delays answers from now on.
    pub fn hold(&self, what: Callback) -> String {
        self.change(|state| state.held[what as usize] = true);
        String::new()
    }

    /// Releases delayed answers.
    pub fn release(&self) -> String {
        self.change(|state| state.held = [false; 3]);
        String::new()
    }

    /// Waits until answers are not delayed any more.
    pub fn await_release(&self) {
        let _ = self.wait(|state| state.held == [false; 3]);
    }

    /// Waits until a callback was called a number of times.
    ///
    /// # Errors
    ///
    /// Fails if this does not happen in time.
    pub fn await_callback(&self, what: Callback, count: u64) -> Result<String, String> {
        self.wait(|state| state.called[what as usize] >= count)
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
            return Err(format!("starts, stops, flushes: {:?}", state.called));
        }
        Ok(String::new())
    }
}

/// Returns the text of the command `packet`.
#[must_use]
pub fn letters(length: usize) -> String {
    ('a'..='z').cycle().take(length).collect()
}

/// Returns the texts of the command `numbers`.
#[must_use]
pub fn numbered(from: u64, count: u64) -> Vec<String> {
    let numbers = from..from + count;
    numbers.map(|number| format!("{number:.<100}")).collect()
}

/// Parses a number of a command.
///
/// # Errors
///
/// Fails if it is not a number.
pub fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("not a number: {word}"))
}

/// Returns the error for an unknown command.
///
/// # Errors
///
/// Always.
pub fn unknown(words: &[&str]) -> Result<String, String> {
    Err(format!("unknown command: {}", words.join(" ")))
}
