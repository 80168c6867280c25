//! Results as aligned columns.

use std::io::{self, Write};
use std::ops::ControlFlow;

use ferretto_output::printable;
use rusqlite::types::ValueRef;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Output, is_suppressed};
use crate::engine::Rows;

/// The number of rows that determine the widths of columns.
const SAMPLE: usize = 10_000;
/// The number of bytes at which fewer rows suffice.
const SAMPLE_BYTES: usize = 4 << 20;

/// Writes results as aligned columns.
#[derive(Debug)]
pub struct Table<W> {
    out: W,
    /// The number of characters of a line, if lines must fit.
    width: Option<usize>,
    results: usize,
    is_suppressed: bool,
    names: Vec<String>,
    /// False for columns with texts, which are aligned to the left.
    is_numeric: Vec<bool>,
    /// The widths of columns, once the sample is complete.
    widths: Option<Vec<usize>>,
    sample: Vec<Vec<String>>,
    /// The number of bytes of the sample.
    bytes: usize,
    error: Option<io::Error>,
}

/// Returns a text as one line that cannot control a terminal.
fn shown(text: &str) -> String {
    // Most texts have no other characters.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let text = text.replace(['\n', '\t', '\r'], " ");
    printable(&text).into_owned()
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => value.to_string(),
        ValueRef::Text(text) => shown(&String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => format!("<{} bytes>", bytes.len()),
    }
}

fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > width {
            break;
        }
        out.push(c);
        used += w;
    }
    out.push('…');
    out
}

/// Narrows the widest columns until all fit.
fn fit(widths: &mut [usize], total: usize) {
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > total {
        let Some(widest) = widths.iter_mut().max() else {
            return;
        };
        if *widest <= 6 {
            return;
        }
        *widest -= 1;
    }
}

impl<W: Write> Table<W> {
    /// Returns a receiver that writes to `out`, with lines of at most `width` characters.
    pub fn new(out: W, width: Option<usize>) -> Self {
        Self {
            out,
            width,
            results: 0,
            is_suppressed: false,
            names: Vec::new(),
            is_numeric: Vec::new(),
            widths: None,
            sample: Vec::new(),
            bytes: 0,
            error: None,
        }
    }

    fn line(&self, line: &[String], widths: &[usize]) -> String {
        let columns = line.iter().zip(widths).zip(&self.is_numeric);
        let parts: Vec<String> = columns
            .map(|((text, width), is_numeric)| {
                let text = truncate(text, *width);
                let fill = " ".repeat(width.saturating_sub(text.width()));
                if *is_numeric {
                    format!("{fill}{text}")
                } else {
                    format!("{text}{fill}")
                }
            })
            .collect();
        parts.join("  ").trim_end().to_owned() + "\n"
    }

    /// Writes the head, once the widths are known, and the rows so far.
    fn flush_sample(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.sample);
        self.bytes = 0;
        let mut text = String::new();
        let widths = self.widths.take().unwrap_or_else(|| {
            let mut widths: Vec<usize> = self.names.iter().map(|name| name.width()).collect();
            for line in &rows {
                for (width, text) in widths.iter_mut().zip(line) {
                    *width = (*width).max(text.width());
                }
            }
            if let Some(total) = self.width {
                fit(&mut widths, total);
            }
            text += &self.line(&self.names, &widths);
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            text += &(rule.join("  ") + "\n");
            widths
        });
        for line in &rows {
            text += &self.line(line, &widths);
        }
        self.widths = Some(widths);
        self.out.write_all(text.as_bytes())
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

    /// Writes what is left of the current result.
    fn close(&mut self) -> io::Result<()> {
        if self.names.is_empty() || self.is_suppressed {
            return Ok(());
        }
        self.flush_sample()
    }
}

impl<W: Write> Output for Table<W> {
    fn finish(&mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.close()?;
        self.out.flush()
    }
}

impl<W: Write> Rows for Table<W> {
    fn columns(&mut self, names: &[String]) -> ControlFlow<()> {
        let mut closed = self.close();
        self.is_suppressed = is_suppressed(names);
        self.names = names.iter().map(|name| shown(name)).collect();
        self.is_numeric = vec![true; names.len()];
        self.widths = None;
        if !self.is_suppressed {
            if self.results > 0 && closed.is_ok() {
                closed = self.out.write_all(b"\n");
            }
            self.results += 1;
        }
        self.end(closed)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.is_suppressed {
            return ControlFlow::Continue(());
        }
        if self.widths.is_none() {
            for (flag, value) in self.is_numeric.iter_mut().zip(values) {
                *flag &= !matches!(value, ValueRef::Text(_) | ValueRef::Blob(_));
            }
        }
        let line: Vec<String> = values.iter().map(|value| text(*value)).collect();
        self.bytes += line.iter().map(String::len).sum::<usize>();
        self.sample.push(line);
        if self.sample.len() < SAMPLE && self.bytes < SAMPLE_BYTES {
            return ControlFlow::Continue(());
        }
        let result = self.flush_sample();
        self.end(result)
    }
}

#[cfg(test)]
mod tests {
    use super::{fit, truncate};

    #[test]
    fn columns_are_narrowed_to_the_width_of_the_terminal() {
        assert_eq!(truncate("abcdef", 4), "abc…");
        assert_eq!(truncate("abc", 4), "abc");
        let mut widths = vec![100, 10, 4];
        fit(&mut widths, 50);
        assert_eq!(widths, [32, 10, 4]);
    }
}
