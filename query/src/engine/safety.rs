//! Limits of statements: no files, bounded memory and time.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

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

/// Limits what statements may do.
pub(super) fn restrict(
    connection: &mut Connection,
    options: &Options,
    limits: &Limits,
) -> Result<(), SqlError> {
    // Sorters and temporary tables stay in memory, which is limited, instead of files.
    connection.execute_batch("PRAGMA temp_store = memory; PRAGMA trusted_schema = off")?;
    // Tables that views read are replaced, which renames another table to their name.
    connection.execute_batch("PRAGMA legacy_alter_table = on")?;
    if options.memory_limit > 0 {
        let limit = i64::try_from(options.memory_limit).unwrap_or(i64::MAX);
        connection.query_row(&format!("PRAGMA hard_heap_limit = {limit}"), [], |_| Ok(()))?;
    }
    connection.authorizer(Some(|context: AuthContext<'_>| authorize(context.action)))?;
    let limits = limits.clone();
    connection.progress_handler(STEPS, Some(move || limits.is_over()))?;
    Ok(())
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
