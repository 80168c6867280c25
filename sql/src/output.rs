//! Results as text.

use std::io::{self, Write};
use std::ops::ControlFlow;

use rusqlite::types::ValueRef;

use crate::engine::Rows;

/// Writes results as comma-separated values: texts in quotes, NULL as `[NULL]`.
#[derive(Debug)]
pub struct Csv<W> {
    out: W,
    results: usize,
    error: Option<io::Error>,
}

impl<W: Write> Csv<W> {
    /// Returns a receiver that writes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            results: 0,
            error: None,
        }
    }

    /// Returns the writer.
    ///
    /// # Errors
    ///
    /// Fails if a result could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        self.error.map_or(Ok(self.out), Err)
    }

    fn end(&mut self, result: io::Result<()>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Writes a number as SQLite does in texts, with six digits after the point.
fn write_value(out: &mut impl Write, value: ValueRef<'_>) -> io::Result<()> {
    match value {
        ValueRef::Null => out.write_all(b"\"[NULL]\""),
        ValueRef::Integer(value) => write!(out, "{value}"),
        ValueRef::Real(value) => write!(out, "{value:.6}"),
        ValueRef::Text(text) => {
            out.write_all(b"\"")?;
            out.write_all(String::from_utf8_lossy(text).as_bytes())?;
            out.write_all(b"\"")
        }
        ValueRef::Blob(bytes) => write!(out, "\"<raw bytes: {}>\"", bytes.len()),
    }
}

impl<W: Write> Rows for Csv<W> {
    fn columns(&mut self, names: &[String]) -> ControlFlow<()> {
        let mut text = String::new();
        if self.results > 0 {
            text.push('\n');
        }
        self.results += 1;
        let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
        text += &names.join(",");
        text.push('\n');
        let result = self.out.write_all(text.as_bytes());
        self.end(result)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()> {
        let mut write = || {
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    self.out.write_all(b",")?;
                }
                write_value(&mut self.out, *value)?;
            }
            self.out.write_all(b"\n")
        };
        let result = write();
        self.end(result)
    }
}
