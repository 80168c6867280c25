//! The formats of results.

mod csv;
mod json;
mod table;

use std::io::{self, Write};

pub use csv::Csv;
pub use json::Json;
pub(crate) use json::push_text;
pub use table::Table;

use crate::engine::Rows;

/// A format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns, truncated to the width of the terminal.
    Table,
    /// Comma-separated values as the trace processor prints them: texts are not escaped.
    Csv,
    /// A JSON array of objects.
    Json,
    /// A JSON object on each line.
    Ndjson,
}

impl Format {
    /// Returns the format with a name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "table" => Self::Table,
            "csv" => Self::Csv,
            "json" => Self::Json,
            "ndjson" => Self::Ndjson,
            _ => return None,
        })
    }
}

/// A receiver of results that writes them.
pub trait Output: Rows {
    /// Writes what has not been written yet.
    ///
    /// # Errors
    ///
    /// Fails if a result could not be written.
    fn finish(&mut self) -> io::Result<()>;

    /// Notes that all statements succeeded, before the end.
    fn succeeded(&mut self) {}
}

/// Returns a receiver that writes results in a format. Tables have at most `width` characters a
/// line.
pub fn output<'a, W: Write + 'a>(
    format: Format,
    width: Option<usize>,
    out: W,
) -> Box<dyn Output + 'a> {
    match format {
        Format::Table => Box::new(Table::new(out, width)),
        Format::Csv => Box::new(Csv::new(out)),
        Format::Json => Box::new(Json::new(out, false)),
        Format::Ndjson => Box::new(Json::new(out, true)),
    }
}

/// Returns a text as JSON.
pub(crate) fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    json::push_text(&mut out, text);
    out
}

/// Returns true if a result must not be written, which queries for their time ask for.
fn is_suppressed(names: &[String]) -> bool {
    matches!(names, [name] if name == "suppress_query_output")
}
