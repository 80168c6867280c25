//! Reading a trace in a thread of its own.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_mcp::{Call, path_of_file};
use ferretto_tables::schema::{TableId, TableSet};
use ferretto_tables::{Continue, Options, Progress, Trace};

use super::loaded::{Contents, Stamp};
use super::queries::PATIENCE;
use crate::errors::message;
use crate::read::{ShownAs, explained};
use crate::summary;

/// The tables of all tools.
const TABLES: TableSet = ferretto_why::TABLES
    .union(ferretto_diff::TABLES)
    .with(TableId::slice);
/// The period in which a cancelled call is noticed, and progress is told.
const PERIOD: Duration = Duration::from_millis(50);

/// A trace that a thread reads. A call that does not wait for its end leaves it to the next.
pub(super) struct Loading {
    name: String,
    pub(super) stamp: Stamp,
    pub(super) file: File,
    shown: ShownAs,
    state: Arc<State>,
    done: Receiver<Result<Contents, String>>,
}

/// The state that the reading threads share with the waiting one.
#[derive(Default)]
struct State {
    bytes: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.state.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Loading {
    pub(super) fn start(
        name: &str,
        file: File,
        stamp: Stamp,
        memory: usize,
    ) -> Result<Self, String> {
        let (sender, done) = channel();
        let path = path_of_file(&file);
        let loading = Self {
            name: name.to_owned(),
            stamp,
            state: Arc::default(),
            done,
            shown: ShownAs::new(path.clone(), name),
            file,
        };
        let (name, state) = (loading.name.clone(), loading.state.clone());
        let read = move || drop(sender.send(read(&path, &name, &state, memory)));
        let started = thread::Builder::new().name("ferretto-read".to_owned());
        started
            .spawn(read)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(loading)
    }

    /// Names it as a call does.
    pub(super) fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        self.shown.rename(name);
    }

    /// Waits for the trace; `None` if the call ends before.
    pub(super) fn wait(&self, call: &Call) -> Option<Result<Contents, String>> {
        let until = Instant::now() + PATIENCE;
        let step = format!("reading {}", self.name);
        loop {
            match self.done.recv_timeout(PERIOD) {
                Ok(done) => return Some(done),
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(Err(format!("cannot read {}", self.name)));
                }
                Err(RecvTimeoutError::Timeout) if call.is_cancelled() => return None,
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let bytes = self.state.bytes.load(Ordering::Relaxed);
                    call.progress(bytes, self.stamp.bytes, &step);
                }
            }
        }
    }

    pub(super) fn percent(&self) -> u64 {
        let bytes = self.state.bytes.load(Ordering::Relaxed);
        (u128::from(bytes) * 100 / u128::from(self.stamp.bytes.max(1))).min(99) as u64
    }
}

/// Reads the tables of a trace, and its summary beside them.
fn read(path: &Path, name: &str, state: &State, memory: usize) -> Result<Contents, String> {
    let options = Options {
        tables: TABLES,
        memory,
        ..Options::default()
    };
    let goes_on = || !state.is_cancelled.load(Ordering::Relaxed);
    let watch = |progress: Progress| {
        state.bytes.store(progress.bytes, Ordering::Relaxed);
        if goes_on() {
            Continue::Yes
        } else {
            Continue::No
        }
    };
    thread::scope(|scope| {
        let summarize = || {
            let text = summary::answer(path, name, |_| goes_on());
            let text = text.map_err(|error| message(&error))?;
            serde_json::from_str(&text).map_err(|error| error.to_string())
        };
        let beside = thread::Builder::new().spawn_scoped(scope, summarize);
        let trace = Trace::open(path, &options, watch);
        let trace =
            trace.map_err(|error| format!("cannot read {name}: {}", message(&explained(error))));
        // The rest of the file does not matter then.
        if !trace.as_ref().is_ok_and(|trace| !trace.exceeds_memory()) {
            state.is_cancelled.store(true, Ordering::Relaxed);
        }
        let summary = match beside {
            Ok(beside) => beside
                .join()
                .unwrap_or_else(|_| Err(format!("cannot summarize {name}"))),
            // Without a thread, it is read after the tables.
            Err(_) => summarize(),
        };
        Ok(Contents {
            trace: trace?,
            summary,
        })
    })
}
