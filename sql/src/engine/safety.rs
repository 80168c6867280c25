//! Limits of statements: no files, bounded memory and time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::Options;
use crate::error::SqlError;

/// The pragmas that only describe the schema.
const PRAGMAS: [&str; 14] = [
    "collation_list",
    "compile_options",
    "database_list",
    "encoding",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "module_list",
    "pragma_list",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// The number of steps of SQLite between two looks at the clock.
const STEPS: i32 = 4096;

/// The time at which the current text must have been run.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    timeout: Option<Duration>,
    end: Arc<Mutex<Option<Instant>>>,
}

impl Deadline {
    /// Begins a text.
    pub(super) fn start(&self) {
        let end = self
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn is_over(&self) -> bool {
        let end = *self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.is_some_and(|end| Instant::now() >= end)
    }

    /// Returns the result of a text, with the reason if it was cancelled at the deadline.
    pub(super) fn check(&self, result: Result<(), SqlError>) -> Result<(), SqlError> {
        let timeout = self.timeout.unwrap_or_default();
        result.map_err(|error| match self.is_over() {
            true => SqlError {
                message: format!("The query took longer than {timeout:?}."),
                ..error
            },
            false => error,
        })
    }
}

/// Limits what statements may do.
pub(super) fn restrict(
    connection: &mut Connection,
    options: &Options,
) -> Result<Deadline, SqlError> {
    // Sorters and temporary tables stay in memory, which is limited, instead of files.
    connection.execute_batch("PRAGMA temp_store = memory; PRAGMA trusted_schema = off")?;
    if options.memory_limit > 0 {
        let limit = i64::try_from(options.memory_limit).unwrap_or(i64::MAX);
        connection.query_row(&format!("PRAGMA hard_heap_limit = {limit}"), [], |_| Ok(()))?;
    }
    connection.authorizer(Some(|context: AuthContext<'_>| authorize(context.action)))?;
    let timeout = (options.timeout_ms > 0).then(|| Duration::from_millis(options.timeout_ms));
    let deadline = Deadline {
        timeout,
        end: Arc::default(),
    };
    if timeout.is_some() {
        let watched = deadline.clone();
        connection.progress_handler(STEPS, Some(move || watched.is_over()))?;
    }
    Ok(deadline)
}

/// Refuses what could reach files, or change the meaning of the session.
fn authorize(action: AuthAction<'_>) -> Authorization {
    match action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Authorization::Deny,
        AuthAction::Pragma { pragma_name, .. }
            if !PRAGMAS
                .iter()
                .any(|name| pragma_name.eq_ignore_ascii_case(name)) =>
        {
            Authorization::Deny
        }
        AuthAction::Function { function_name, .. }
            if function_name.eq_ignore_ascii_case("load_extension") =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}
