//! Texts without characters that control a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use ferretto_text::terminal::controls;

/// Returns true for characters that control a terminal, except ends of lines and tabs.
fn is_control(c: char) -> bool {
    !matches!(c, '\n' | '\t') && controls(c)
}

/// Returns a text for a terminal: control characters are written as `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_control(c) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// A writer to a terminal, which writes control characters as [`printable`] does, and bytes that
/// are not UTF-8 as U+FFFD.
#[derive(Debug)]
pub struct Printable<W> {
    out: W,
    /// The beginning of a character.
    rest: Vec<u8>,
}

impl<W: Write> Printable<W> {
    /// Returns a writer to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            rest: Vec::new(),
        }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut text = String::with_capacity(all.len());
        for chunk in all.utf8_chunks() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let is_last = invalid.as_ptr_range().end == all.as_ptr_range().end;
            // A character may continue in the next bytes.
            if is_last && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none()) {
                self.rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.out.write_all(printable(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
