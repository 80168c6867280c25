//! Limits of statements: no files, bounded memory and time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

use super::Options;
use crate::error::SqlError;
use crate::limits::Limits;

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

/// The tables that `CREATE PERFETTO TABLE` has made, in lower case. Statements only read them.
#[derive(Debug, Default, Clone)]
pub(super) struct ReadOnly(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    names: HashSet<String>,
    /// The table that a statement was not allowed to change.
    refused: Option<String>,
}

impl ReadOnly {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, name: &str) {
        self.tables().names.insert(name.to_ascii_lowercase());
    }

    fn remove(&self, name: &str) {
        self.tables().names.remove(&name.to_ascii_lowercase());
    }

    /// Returns true if a table may be changed.
    fn allows(&self, name: &str) -> bool {
        let mut tables = self.tables();
        let allows = !tables.names.contains(&name.to_ascii_lowercase());
        if !allows {
            tables.refused = Some(name.to_owned());
        }
        allows
    }

    /// Returns an error with its reason, if it is that a table must not be changed.
    pub(super) fn explained(&self, error: SqlError) -> SqlError {
        let Some(name) = self.tables().refused.take() else {
            return error;
        };
        SqlError {
            message: format!(
                "The table '{name}' cannot be changed, since CREATE PERFETTO TABLE has made it. \
                 Use CREATE OR REPLACE PERFETTO TABLE, or CREATE TABLE."
            ),
            ..error
        }
    }
}

/// Limits what statements may do.
pub(super) fn restrict(
    connection: &mut Connection,
    options: &Options,
    limits: &Limits,
    read_only: &ReadOnly,
) -> Result<(), SqlError> {
    // Sorters and temporary tables stay in memory, which is limited, instead of files.
    connection.execute_batch("PRAGMA temp_store = memory; PRAGMA trusted_schema = off")?;
    // Tables that views read are replaced, which renames another table to their name.
    connection.execute_batch("PRAGMA legacy_alter_table = on")?;
    if options.memory_limit > 0 {
        let limit = i64::try_from(options.memory_limit).unwrap_or(i64::MAX);
        connection.query_row(&format!("PRAGMA hard_heap_limit = {limit}"), [], |_| Ok(()))?;
    }
    // One text or blob, of which functions keep copies, is a part of the memory.
    if let Ok(length @ 1..) = i32::try_from(options.memory_limit / 4) {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, length)?;
    }
    let read_only = read_only.clone();
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        authorize(context.action, &read_only)
    }))?;
    let limits = limits.clone();
    connection.progress_handler(STEPS, Some(move || limits.is_over()))?;
    Ok(())
}

/// Refuses what could reach files, or change the meaning of the session.
fn authorize(action: AuthAction<'_>, read_only: &ReadOnly) -> Authorization {
    match action {
        // A table is dropped by a deletion of its rows, which comes after.
        AuthAction::DropTable { table_name } => {
            read_only.remove(table_name);
            Authorization::Allow
        }
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::AlterTable { table_name, .. }
            if !read_only.allows(table_name) =>
        {
            Authorization::Deny
        }
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Authorization::Deny,
        AuthAction::Pragma { pragma_name, .. }
            if !PRAGMAS
                .iter()
                .any(|name| pragma_name.eq_ignore_ascii_case(name)) =>
        {
            Authorization::Deny
        }
        AuthAction::CreateVtable { module_name, .. } if is_storage(module_name) => {
            Authorization::Deny
        }
        AuthAction::Function { function_name, .. }
            if ["load_extension", "fts3_tokenizer"]
                .iter()
                .any(|name| function_name.eq_ignore_ascii_case(name)) =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}

/// Returns true for the modules of SQLite that keep indexes of their own, with functions that write
/// into them.
fn is_storage(module: &str) -> bool {
    let module = module.to_ascii_lowercase();
    ["fts", "rtree", "geopoly", "dbstat", "sqlite_dbpage"]
        .iter()
        .any(|name| module.starts_with(name))
}
