//! The tables of a trace as files of other programs.

mod arrow;
mod flatbuffer;
mod sqlite;
mod tar;

use std::io::{self, Write};

use ferretto_tables::Trace;

use crate::engine::Engine;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// A database of SQLite with all tables and views.
    Sqlite,
    /// A tar archive with a file of Arrow for each table.
    Arrow,
}

impl ExportFormat {
    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sqlite" => Some(Self::Sqlite),
            "arrow" | "arrow_tar" => Some(Self::Arrow),
            _ => None,
        }
    }
}

/// Writes the tables of a session.
///
/// # Errors
///
/// Fails if a query fails or the output cannot be written.
pub fn export(
    engine: &mut Engine,
    trace: &Trace,
    format: ExportFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        ExportFormat::Sqlite => sqlite::write(engine, trace, out),
        ExportFormat::Arrow => arrow::write(trace, out),
    }
}
