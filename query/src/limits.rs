//! Limits of a session that hold outside of SQLite, too: the memory of rows that operators keep,
//! the time, cancellation, and the depth of functions that call each other.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Error, Result, ffi};

use crate::error::SqlError;

/// The largest depth of functions that call each other.
const MAX_DEPTH: usize = 200;
/// The memory in bytes that a byte of the text of statements may take, as tokens and their copies.
const OF_TEXT: u64 = 256;
/// The memory in bytes that a byte of a registered module takes at most: it is held twice, beside
/// what else the session holds.
const OF_MODULE: u64 = 8;
/// The memory of a module besides its text.
const MODULE: u64 = 256;
/// The number of bytes that a holder of rows may keep before it asks for more.
const PIECE: u64 = 1 << 16;

/// The options of a session.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The memory in bytes that SQLite may use in this process, and that rows which operators hold
    /// may use in this session; 0 for no limit.
    pub memory_limit: u64,
    /// The time in milliseconds that a text of statements may take; 0 for no limit.
    pub timeout_ms: u64,
}

/// The limits of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The largest number of bytes; 0 for no limit.
    memory: u64,
    used: AtomicU64,
    timeout: Option<Duration>,
    /// The time at which the current text must have been run.
    end: Mutex<Option<Instant>>,
    is_cancelled: AtomicBool,
    /// True once the client of the current text is gone.
    is_gone: Mutex<Option<Arc<AtomicBool>>>,
    depth: AtomicUsize,
}

fn failure(code: i32) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), None)
}

impl Limits {
    pub(crate) fn new(options: &Options) -> Self {
        let timeout = (options.timeout_ms > 0).then(|| Duration::from_millis(options.timeout_ms));
        Self(Arc::new(State {
            memory: options.memory_limit,
            timeout,
            ..State::default()
        }))
    }

    /// Begins a text.
    pub(crate) fn start(&self) {
        let timeout = self.0.timeout;
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        *self.0.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.0.is_cancelled.store(false, Ordering::Relaxed);
    }

    /// Cancels the current text.
    pub(crate) fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Ends texts once the variable is true. It replaces the last one.
    pub(crate) fn end_with(&self, over: Option<Arc<AtomicBool>>) {
        *self
            .0
            .is_gone
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = over;
    }

    fn is_gone(&self) -> bool {
        let over = self.0.is_gone.lock();
        let over = over.unwrap_or_else(PoisonError::into_inner);
        over.as_ref()
            .is_some_and(|over| over.load(Ordering::Relaxed))
    }

    fn is_late(&self) -> bool {
        let end = *self.0.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.is_some_and(|end| Instant::now() >= end)
    }

    /// Returns true if the current text must end.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed) || self.is_gone() || self.is_late()
    }

    /// Fails if the current text must end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_over() {
            return Err(failure(ffi::SQLITE_INTERRUPT));
        }
        Ok(())
    }

    /// Returns the result of a text, with the reason if it was ended at the deadline.
    pub(crate) fn explained(&self, result: Result<(), SqlError>) -> Result<(), SqlError> {
        let timeout = self.0.timeout.unwrap_or_default();
        result.map_err(|error| {
            if self.is_late() {
                SqlError {
                    message: format!("The query took longer than {timeout:?}."),
                    ..error
                }
            } else {
                error
            }
        })
    }

    /// Runs a function that statements call, which must not be nested too deep.
    pub(crate) fn nested<T>(&self, name: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let depth = self.0.depth.fetch_add(1, Ordering::Relaxed);
        let result = if depth < MAX_DEPTH {
            call()
        } else {
            Err(Error::UserFunctionError(
                format!("{name}: more than {MAX_DEPTH} calls are nested").into(),
            ))
        };
        self.0.depth.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Fails if the tokens of a text of statements would take too much memory.
    pub(crate) fn check_text(&self, sql: &str) -> Result<(), SqlError> {
        let most = self.0.memory / OF_TEXT;
        if self.0.memory > 0 && sql.len() as u64 > most {
            return Err(SqlError::new(format!(
                "The text has more than {most} bytes, the most with this memory limit \
                 (--memory-limit)."
            )));
        }
        Ok(())
    }

    /// Fails if modules would take too much memory.
    pub(crate) fn check_modules<'a>(
        &self,
        modules: impl Iterator<Item = &'a (String, String)>,
    ) -> Result<(), SqlError> {
        let size = |(name, sql): &(String, String)| (name.len() + sql.len()) as u64 + MODULE;
        let most = self.0.memory / OF_MODULE;
        if self.0.memory > 0 && modules.map(size).sum::<u64>() > most {
            return Err(SqlError::new(format!(
                "The registered modules have more than {most} bytes, the most with this memory \
                 limit (--memory-limit)."
            )));
        }
        Ok(())
    }

    /// Returns an account with bytes that are kept for later statements, too: `None` if the kept
    /// and the used ones were more than half of the limit then.
    pub(crate) fn keep(&self, bytes: u64) -> Option<Charge> {
        let most = match self.0.memory {
            0 => u64::MAX,
            memory => memory / 2,
        };
        let add = |used: u64| used.checked_add(bytes).filter(|used| *used <= most);
        let added = self
            .0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok()?;
        Some(Charge {
            limits: self.clone(),
            taken: bytes,
            pending: 0,
        })
    }

    /// Returns an account of memory.
    pub(crate) fn charge(&self) -> Charge {
        Charge {
            limits: self.clone(),
            taken: 0,
            pending: 0,
        }
    }
}

/// The memory that a holder of rows uses. It is given back when the account is dropped.
pub(crate) struct Charge {
    limits: Limits,
    taken: u64,
    pending: u64,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl Charge {
    /// Adds bytes, and fails if there are too many, or if the current text must end.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<()> {
        self.pending += bytes;
        if self.pending < PIECE {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.pending);
        self.taken += bytes;
        let state = &self.limits.0;
        let used = state.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if state.memory > 0 && used > state.memory {
            return Err(failure(ffi::SQLITE_NOMEM));
        }
        self.limits.check()
    }

    /// Gives bytes back.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let pending = bytes.min(self.pending);
        self.pending -= pending;
        let taken = (bytes - pending).min(self.taken);
        if taken == 0 {
            return;
        }
        self.taken -= taken;
        self.limits.0.used.fetch_sub(taken, Ordering::Relaxed);
    }

    /// Adds the memory of a value.
    pub(crate) fn add(&mut self, value: &Value) -> Result<()> {
        let content = match value {
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        self.grow((size_of::<Value>() + content) as u64)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.limits.0.used.fetch_sub(self.taken, Ordering::Relaxed);
    }
}
