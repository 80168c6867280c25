//! Modules about events that Ferretto does not read. Their tables are empty, as upstream's are for
//! traces without such events. For a trace that may have them, the session tells who reads them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_tables::Trace;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

const LIST: &str = include_str!("absent.txt");

/// Returns the modules with their SQL.
pub(super) fn all() -> Vec<(String, String)> {
    let mut entries: Vec<String> = Vec::new();
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        // Long lines go on after three spaces.
        match (line.strip_prefix("   "), entries.last_mut()) {
            (Some(rest), Some(entry)) => *entry += &format!(" {rest}"),
            _ => entries.push(line.to_owned()),
        }
    }
    let mut modules: Vec<(String, String)> = Vec::new();
    for entry in entries {
        match (entry.strip_prefix(' '), modules.last_mut()) {
            (Some(object), Some((module, sql))) => *sql += &define(module, object),
            _ => modules.push((entry, String::new())),
        }
    }
    modules
}

/// Returns the statement that defines an object of a module.
fn define(module: &str, object: &str) -> String {
    let mut words = object.split(' ').filter(|word| !word.is_empty());
    let kind = words.next().unwrap_or_default();
    let name = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let guard = format!("WHERE __perfetto_lacks('{module}')");
    let nulls = |columns: &[&str]| {
        let columns = columns.iter().map(|column| format!("NULL AS \"{column}\""));
        columns.collect::<Vec<_>>().join(", ")
    };
    let typed = |names: &[&str]| {
        let names = names.iter().map(|name| format!("{name} ANY"));
        names.collect::<Vec<_>>().join(", ")
    };
    match kind {
        "include" => format!("INCLUDE PERFETTO MODULE {name};\n"),
        "table" => format!(
            "CREATE PERFETTO VIEW {name} AS SELECT {} {guard};\n",
            nulls(&rest)
        ),
        "rows" => {
            let arrow = rest.iter().position(|word| *word == "->").unwrap_or(0);
            let (arguments, columns) = (&rest[..arrow], &rest[arrow + 1..]);
            format!(
                "CREATE PERFETTO FUNCTION {name}({}) RETURNS TABLE({}) AS SELECT {} {guard};\n",
                typed(arguments),
                typed(columns),
                nulls(columns)
            )
        }
        _ => format!(
            "CREATE PERFETTO FUNCTION {name}({}) RETURNS ANY AS SELECT NULL {guard};\n",
            typed(&rest)
        ),
    }
}

/// Returns true if a trace has metadata whose name begins so.
fn has_metadata(trace: &Trace, prefixes: &[&str]) -> bool {
    let names = trace.tables().metadata.name();
    (0..trace.tables().metadata.len()).any(|row| {
        let name = trace.strings().get(names.get(row)).unwrap_or_default();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Returns true if a trace has packets that were not imported.
fn has_skipped_packets(trace: &Trace) -> bool {
    let stats = &trace.tables().stats;
    (0..stats.len()).any(|row| {
        let name = trace.strings().get(stats.name().get(row));
        name == Some("packets_not_imported") && stats.value().get(row) > 0
    })
}

/// The modules that statements have read although the trace may have their events.
#[derive(Debug, Default, Clone)]
pub(crate) struct Unread(Arc<Mutex<BTreeSet<String>>>);

impl Unread {
    fn modules(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the modules since the last call.
    pub(crate) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.modules())
    }
}

/// Registers the function that guards the tables: it returns 0, and remembers the module if the
/// trace may have its events.
pub(crate) fn register(connection: &Connection, trace: &Arc<Trace>) -> Result<Unread> {
    let has_skipped = has_skipped_packets(trace);
    let has_android = has_skipped || has_metadata(trace, &["android_"]);
    let has_chrome = has_skipped || has_metadata(trace, &["cr-", "chrome"]);
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    let unread = Unread::default();
    let known = unread.clone();
    connection.create_scalar_function("__perfetto_lacks", 1, flags, move |context| {
        let ValueRef::Text(module) = context.get_raw(0) else {
            return Ok(0);
        };
        let module = String::from_utf8_lossy(module);
        let has_events = match module.split('.').next().unwrap_or_default() {
            "chrome" | "v8" => has_chrome,
            "android" | "pixel" | "wattson" => has_android,
            _ => has_skipped,
        };
        if has_events {
            known.modules().insert(module.into_owned());
        }
        Ok(0)
    })?;
    Ok(unread)
}
