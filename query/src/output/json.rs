//! Results as JSON.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::ControlFlow;

use ferretto_text::terminal::controls;
use rusqlite::types::ValueRef;

use super::{Output, is_suppressed};
use crate::engine::Rows;

/// Writes each result as an array of objects, or one object on each line.
#[derive(Debug)]
pub struct Json<W> {
    out: W,
    is_lines: bool,
    /// The keys of the current result; `None` if there is none.
    keys: Option<Vec<String>>,
    has_results: bool,
    rows: u64,
    is_suppressed: bool,
    error: Option<io::Error>,
}

/// Appends a text in quotes.
pub(crate) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if controls(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn push_value(out: &mut String, value: ValueRef<'_>) {
    match value {
        ValueRef::Integer(value) => {
            let _ = write!(out, "{value}");
        }
        ValueRef::Real(value) if value.is_finite() => {
            let _ = write!(out, "{value:?}");
        }
        ValueRef::Text(text) => push_text(out, &String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => push_text(out, &crate::functions::base64(bytes)),
        // JSON cannot represent infinity.
        ValueRef::Null | ValueRef::Real(_) => out.push_str("null"),
    }
}

impl<W: Write> Json<W> {
    /// Returns a receiver that writes to `out`: arrays, or lines.
    pub fn new(out: W, is_lines: bool) -> Self {
        Self {
            out,
            is_lines,
            keys: None,
            has_results: false,
            rows: 0,
            is_suppressed: false,
            error: None,
        }
    }

    fn write(&mut self, text: &str) -> ControlFlow<()> {
        match self.out.write_all(text.as_bytes()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Ends the array of the current result.
    fn close(&mut self) -> ControlFlow<()> {
        if self.keys.take().is_none() || self.is_lines || self.is_suppressed {
            return ControlFlow::Continue(());
        }
        self.write(if self.rows == 0 { "]\n" } else { "\n]\n" })
    }
}

/// Returns the keys of an object for these columns, in quotes. Equal names get numbers, as SQLite
/// gives the columns of a table, because readers of JSON keep one value of a key.
fn keys(names: &[String]) -> Vec<String> {
    let mut used: HashSet<String> = names.iter().cloned().collect();
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let mut key = |name| {
        let count = seen.entry(name).or_insert(0);
        let mut unique = name.to_owned();
        if *count > 0 {
            while !used.insert(format!("{name}:{count}")) {
                *count += 1;
            }
            unique = format!("{name}:{count}");
        }
        *count += 1;
        let mut key = String::new();
        push_text(&mut key, &unique);
        key
    };
    names.iter().map(|name| key(name.as_str())).collect()
}

impl<W: Write> Output for Json<W> {
    fn succeeded(&mut self) {
        // Statements without results have one that can be read, too.
        if !self.has_results && !self.is_lines {
            // `finish` returns the error.
            let _ = self.write("[]\n");
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.error.is_none() {
            // The error is returned below.
            let _ = self.close();
        }
        self.error.take().map_or_else(|| self.out.flush(), Err)
    }
}

impl<W: Write> Rows for Json<W> {
    fn columns(&mut self, names: &[String]) -> ControlFlow<()> {
        self.close()?;
        self.is_suppressed = is_suppressed(names);
        self.rows = 0;
        self.has_results = true;
        self.keys = Some(keys(names));
        if self.is_lines || self.is_suppressed {
            ControlFlow::Continue(())
        } else {
            self.write("[")
        }
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.is_suppressed {
            return ControlFlow::Continue(());
        }
        let mut text = match (self.is_lines, self.rows) {
            (true, _) => "{".to_owned(),
            (false, 0) => "\n  {".to_owned(),
            (false, _) => ",\n  {".to_owned(),
        };
        self.rows += 1;
        let keys = self.keys.iter().flatten();
        for (index, (key, value)) in keys.zip(values).enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(key);
            text.push(':');
            push_value(&mut text, *value);
        }
        text.push_str(if self.is_lines { "}\n" } else { "}" });
        self.write(&text)
    }
}
