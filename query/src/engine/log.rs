//! The log of texts that a session has run, as the table `sqlstats`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use crate::limits::Limits;
use crate::relations::{Stored, StoredRows};
use crate::sqlite::Relations;

/// The number of texts that are kept, as upstream.
const MAX_TEXTS: usize = 100;
/// The number of bytes of a text that are kept.
const MAX_BYTES: usize = 1 << 14;

/// A text of statements with the times of its start, its first row and its end in nanoseconds; 0
/// for times that have not come.
#[derive(Debug)]
struct Entry {
    sql: String,
    started: i64,
    first_row: i64,
    ended: i64,
}

/// The last texts of a session.
#[derive(Debug, Default, Clone)]
pub(super) struct Log(Arc<Mutex<VecDeque<Entry>>>);

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(0))
}

impl Log {
    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a text.
    pub(super) fn begin(&self, sql: &str) {
        let mut entries = self.entries();
        if entries.len() >= MAX_TEXTS {
            entries.pop_front();
        }
        // Times differ, since the table is ordered by them.
        let last = entries.back().map_or(0, |entry| entry.started);
        entries.push_back(Entry {
            sql: sql[..sql.floor_char_boundary(MAX_BYTES)].to_owned(),
            started: now().max(last + 1),
            first_row: 0,
            ended: 0,
        });
    }

    /// Notes that the current text has its first row.
    pub(super) fn has_row(&self) {
        if let Some(entry) = self.entries().back_mut().filter(|e| e.first_row == 0) {
            entry.first_row = now().max(entry.started);
        }
    }

    /// Ends the current text.
    pub(super) fn end(&self) {
        if let Some(entry) = self.entries().back_mut() {
            entry.ended = now().max(entry.started).max(entry.first_row);
        }
    }

    /// Registers the table.
    pub(super) fn register(
        &self,
        connection: &Connection,
        relations: &Relations,
        limits: &Limits,
    ) -> Result<()> {
        const COLUMNS: [&str; 4] = ["query", "started", "first_next", "ended"];
        let (log, limits) = (self.clone(), limits.clone());
        let relation = Stored::new(COLUMNS.map(str::to_owned).to_vec(), Vec::new(), move |_| {
            let mut rows = StoredRows::new(COLUMNS.len(), &limits);
            for entry in log.entries().iter() {
                rows.push(entry.sql.clone())?;
                let times = [entry.started, entry.first_row, entry.ended];
                rows.extend(times.map(Value::Integer))?;
            }
            Ok(Arc::new(rows))
        });
        relations.register(connection, "sqlstats", relation)
    }
}
