//! The import of traces within a memory limit.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::ObjectStoreExt;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::files::{TraceFile, is_address, store};
use crate::error::SqlError;
use crate::trace::LoadedTrace;
use ferretto_tables::{Continue, Options, TableSet};

/// A trace that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The path of the file.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// The estimated memory of an import for each byte of the file. Compressed files take more; only
/// the limit of the import itself bounds them.
const MEMORY_PER_BYTE: u64 = 3;
const MIB: u64 = 1 << 20;

/// Imports traces. Waits while the traces in memory reach the limit.
#[derive(Debug)]
pub struct Importer {
    permits: Arc<Semaphore>,
    memory: u64,
    /// For each imported file, the reason if it cannot be read.
    outcomes: Mutex<HashMap<String, Option<String>>>,
    done: AtomicU64,
    bytes: AtomicU64,
}

/// A trace in memory, with its share of the limit.
pub(super) struct Held {
    pub(super) trace: LoadedTrace,
    _permits: OwnedSemaphorePermit,
}

impl Importer {
    /// Returns an importer of traces that take at most `memory` bytes together.
    pub fn new(memory: u64) -> Self {
        let memory = memory.clamp(64 * MIB, 1 << 50);
        Self {
            permits: Arc::new(Semaphore::new((memory / MIB) as usize)),
            memory,
            outcomes: Mutex::default(),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Returns the number and the bytes of imported traces.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }

    fn outcomes(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        // Entries are inserted at once, so a panic leaves none incomplete.
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the traces that could not be read, sorted by path.
    pub fn failures(&self) -> Vec<Failure> {
        let outcomes = self.outcomes();
        let failure = |(path, reason): (&String, &Option<String>)| {
            Some(Failure {
                path: path.clone(),
                reason: reason.clone()?,
            })
        };
        let mut failures: Vec<Failure> = outcomes.iter().filter_map(failure).collect();
        failures.sort_by(|a, b| a.path.cmp(&b.path));
        failures
    }

    /// Returns the reason if a file cannot be read. Imports it if it was not imported before.
    pub(super) async fn reason(&self, file: &TraceFile) -> Option<String> {
        let known = self.outcomes().get(&file.path).cloned();
        if let Some(outcome) = known {
            return outcome;
        }
        drop(self.import(file, TableSet::NONE).await);
        self.outcomes().get(&file.path).cloned().flatten()
    }

    /// Imports some tables of a file. Returns `None` and keeps the reason if it cannot be read.
    pub(super) async fn import(&self, file: &TraceFile, tables: TableSet) -> Option<Held> {
        let all = self.memory / MIB;
        let estimate = (file.size * MEMORY_PER_BYTE / MIB + 1).min(all) as u32;
        let mut permits = self
            .permits
            .clone()
            .acquire_many_owned(estimate)
            .await
            .ok()?;
        let cancel = Cancel(Arc::new(AtomicBool::new(false)));
        let cancelled = cancel.0.clone();
        let options = Options {
            tables,
            threads: 1,
            memory: usize::try_from(self.memory).unwrap_or(usize::MAX),
            ..Options::default()
        };
        let path = file.path.clone();
        let handle = Handle::current();
        let work = tokio::task::spawn_blocking(move || open(&path, &options, &handle, &cancelled));
        let outcome = match work.await {
            Ok(outcome) => outcome,
            Err(_) => Err(SqlError::new("the import failed unexpectedly")),
        };
        drop(cancel);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(file.size, Ordering::Relaxed);
        let reason = outcome.as_ref().err().map(|error| error.message.clone());
        self.outcomes().insert(file.path.clone(), reason);
        let trace = outcome.ok()?;
        let taken = (trace.tables().max_memory() as u64 / MIB + 1) as u32;
        if taken < estimate {
            permits.split((estimate - taken) as usize);
        }
        Some(Held {
            trace,
            _permits: permits,
        })
    }
}

/// Cancels the import when its future is dropped.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads a trace. Blocks the thread.
pub(super) fn open(
    path: &str,
    options: &Options,
    handle: &Handle,
    cancelled: &AtomicBool,
) -> Result<LoadedTrace, SqlError> {
    if is_address(path) {
        let (store, location) = store(path)?;
        let object = handle
            .block_on(store.get(&location))
            .map_err(|e| SqlError::new(e.to_string()))?;
        let input = ObjectReader {
            handle,
            cancelled,
            chunks: object.into_stream(),
            rest: Bytes::new(),
        };
        return LoadedTrace::read_from(input, options);
    }
    LoadedTrace::open(path.as_ref(), options, |_| {
        if cancelled.load(Ordering::Relaxed) {
            Continue::No
        } else {
            Continue::Yes
        }
    })
}

/// Reads an object of a store as a stream.
struct ObjectReader<'a> {
    handle: &'a Handle,
    cancelled: &'a AtomicBool,
    chunks: BoxStream<'static, object_store::Result<Bytes>>,
    rest: Bytes,
}

impl Read for ObjectReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(io::Error::other("the import was cancelled"));
            }
            match self.handle.block_on(self.chunks.next()) {
                Some(chunk) => self.rest = chunk.map_err(io::Error::other)?,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}
