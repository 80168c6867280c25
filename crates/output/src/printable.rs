//! Texts without characters that control a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Returns true for a character that moves the cursor, changes the terminal, or changes the order
/// in which others are shown. Ends of lines and tabs are none.
fn is_control(c: char) -> bool {
    const DIRECTIONS: [char; 12] = [
        '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
        '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
    ];
    (c.is_control() && !matches!(c, '\n' | '\t')) || DIRECTIONS.contains(&c)
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
