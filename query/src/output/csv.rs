//! Results as comma-separated values.

use std::io::{self, Write};
use std::ops::ControlFlow;

use rusqlite::types::ValueRef;

use super::{Output, is_suppressed};
use crate::engine::Rows;

/// Writes results as comma-separated values: texts in quotes, NULL as `[NULL]`.
#[derive(Debug)]
pub struct Csv<W> {
    out: W,
    results: usize,
    is_suppressed: bool,
    error: Option<io::Error>,
}

impl<W: Write> Csv<W> {
    /// Returns a receiver that writes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            results: 0,
            is_suppressed: false,
            error: None,
        }
    }

    /// Returns the writer.
    ///
    /// # Errors
    ///
    /// Fails if a result could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        Output::finish(&mut self)?;
        Ok(self.out)
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

impl<W: Write> Output for Csv<W> {
    fn finish(&mut self) -> io::Result<()> {
        self.error.take().map_or_else(|| self.out.flush(), Err)
    }
}

/// Writes a real as C's `%f` does.
fn write_real(out: &mut impl Write, value: f64) -> io::Result<()> {
    match value {
        _ if value.is_nan() => out.write_all(b"nan"),
        _ if value.is_infinite() => out.write_all(if value > 0.0 { b"inf" } else { b"-inf" }),
        _ => write!(out, "{value:.6}"),
    }
}

/// Writes a value. Reals have six digits after the point.
fn write_value(out: &mut impl Write, value: ValueRef<'_>) -> io::Result<()> {
    match value {
        ValueRef::Null => out.write_all(b"\"[NULL]\""),
        ValueRef::Integer(value) => write!(out, "{value}"),
        ValueRef::Real(value) => write_real(out, value),
        ValueRef::Text(text) => {
            out.write_all(b"\"")?;
            out.write_all(String::from_utf8_lossy(text).as_bytes())?;
            out.write_all(b"\"")
        }
        ValueRef::Blob(_) => out.write_all(b"\"<raw bytes>\""),
    }
}

impl<W: Write> Rows for Csv<W> {
    fn columns(&mut self, names: &[String]) -> ControlFlow<()> {
        self.is_suppressed = is_suppressed(names);
        if self.is_suppressed {
            return ControlFlow::Continue(());
        }
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
        if self.is_suppressed {
            return ControlFlow::Continue(());
        }
        let mut write = || {
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
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
