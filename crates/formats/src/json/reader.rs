//! Splits the byte stream of a JSON trace into its parts.

use std::fmt;
use std::ops::Range;

use super::value::Json;

/// The largest number of bytes of a value. Larger values are skipped.
const MAX_VALUE: usize = 16 << 20;

/// A part of the file.
#[derive(Debug)]
pub enum Part<'a> {
    /// An event, and its offset in the file.
    Event(u64, &'a [u8]),
    /// A line of kernel events in systrace format.
    SystemLine(&'a str),
    /// The `displayTimeUnit` of the file.
    DisplayTimeUnit,
    /// The `metadata` of the file.
    Metadata(&'a [u8]),
    /// A value at this offset in the array of events that is not an object or is too large.
    NoEvent(u64),
}

/// The reason why a file cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Unexpected text or end of the file at this offset.
    Syntax(u64),
    /// The file ends within the outer object.
    Unterminated,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(offset) => write!(f, "not a JSON trace: unexpected text at byte {offset}"),
            Self::Unterminated => f.write_str("JSON trace file is incomplete (ERR:tp-corrupt)"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Before the first bracket.
    Start,
    /// Before a key of the outer object, or its end.
    Key,
    /// After a key, before its colon.
    Colon,
    /// Before the value of a key.
    Value,
    /// In the array of events, before an event or the end.
    Events,
    /// In the string of kernel events.
    System,
    /// After the end.
    End,
}

/// The key that a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    TraceEvents,
    SystemTraceEvents,
    DisplayTimeUnit,
    Metadata,
    Other,
}

/// The state of the search for the end of a value.
#[derive(Debug, Default)]
struct Scan {
    /// The number of bytes of the buffer that were searched.
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The number of bytes of a too large value that were dropped.
    dropped: u64,
}

/// Splits a JSON trace into its parts.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
    /// The first byte that is still needed.
    start: usize,
    /// The offset of the buffer in the file.
    offset: u64,
    position: Position,
    is_array: bool,
    key: Key,
    scan: Scan,
    line: Vec<u8>,
    escape: Vec<u8>,
    max_value: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            position: Position::Start,
            is_array: false,
            key: Key::Other,
            scan: Scan::default(),
            line: Vec::new(),
            escape: Vec::new(),
            max_value: MAX_VALUE,
        }
    }
}

impl Reader {
    /// Adds bytes, and calls `each` with the parts that they complete.
    ///
    /// # Errors
    ///
    /// Fails if the file is not a JSON trace.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Part<'_>)) -> Result<(), Broken> {
        self.buffer.drain(..self.start);
        self.offset += self.start as u64;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
        while self.step(&mut each)? {}
        Ok(())
    }

    /// Ends the file, and calls `each` with the last part.
    ///
    /// # Errors
    ///
    /// Fails if the file is incomplete.
    pub fn finish(&mut self, mut each: impl FnMut(Part<'_>)) -> Result<(), Broken> {
        if self.position == Position::Start {
            return Err(Broken::Syntax(self.here()));
        }
        let is_cut = !self.is_array && self.position != Position::End;
        if self.position == Position::System && !self.line.is_empty() {
            self.emit_line(&mut each);
        }
        if is_cut {
            Err(Broken::Unterminated)
        } else {
            Ok(())
        }
    }

    fn here(&self) -> u64 {
        self.offset + self.start as u64
    }

    fn broken<T>(&self) -> Result<T, Broken> {
        Err(Broken::Syntax(self.here()))
    }

    /// Skips white space, and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.buffer.get(self.start..)?;
        let space = rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        self.start += space;
        self.buffer.get(self.start).copied()
    }

    /// Reads one token. Returns false if it needs more bytes.
    fn step(&mut self, each: &mut impl FnMut(Part<'_>)) -> Result<bool, Broken> {
        if self.position == Position::System {
            return self.step_system(each);
        }
        if self.scan.at > 0 || self.scan.dropped > 0 {
            // Continues within a value.
            return self.step_value(each);
        }
        let Some(byte) = self.peek() else {
            return Ok(false);
        };
        match (self.position, byte) {
            (Position::Start, b'{') => {
                self.position = Position::Key;
                self.start += 1;
            }
            (Position::Start, b'[') => {
                self.position = Position::Events;
                self.is_array = true;
                self.start += 1;
            }
            (Position::Key | Position::Events, b',') => self.start += 1,
            (Position::Key, b'}') => {
                self.position = Position::End;
                self.start += 1;
            }
            (Position::Key, b'"') => return self.step_value(each),
            (Position::Colon, b':') => {
                self.position = Position::Value;
                self.start += 1;
            }
            (Position::Value, b'[') if self.key == Key::TraceEvents => {
                self.position = Position::Events;
                self.start += 1;
            }
            (Position::Value, b'"') if self.key == Key::SystemTraceEvents => {
                self.position = Position::System;
                self.start += 1;
            }
            (Position::Value, _) => match self.key {
                Key::TraceEvents | Key::SystemTraceEvents => return self.broken(),
                _ => return self.step_value(each),
            },
            (Position::Events, b']') => {
                self.position = if self.is_array {
                    Position::End
                } else {
                    Position::Key
                };
                self.start += 1;
            }
            (Position::Events, b'}') => {
                each(Part::NoEvent(self.here()));
                self.start += 1;
            }
            (Position::Events, _) => return self.step_value(each),
            _ => return self.broken(),
        }
        Ok(true)
    }

    /// Reads the value that begins at `start`, if its end is in the buffer.
    fn step_value(&mut self, each: &mut impl FnMut(Part<'_>)) -> Result<bool, Broken> {
        let Some(end) = self.find_end() else {
            if self.buffer.len() - self.start > self.max_value {
                // The value is too large: its bytes are not needed.
                self.scan.dropped += (self.buffer.len() - self.start) as u64;
                self.scan.at = 0;
                self.start = self.buffer.len();
            }
            return Ok(false);
        };
        let value = self.start..end;
        let begin = self.here() - self.scan.dropped;
        let is_whole = self.scan.dropped == 0;
        self.scan = Scan::default();
        self.start = end;
        self.take_value(value, begin, is_whole, each)?;
        Ok(true)
    }

    fn take_value(
        &mut self,
        value: Range<usize>,
        begin: u64,
        is_whole: bool,
        each: &mut impl FnMut(Part<'_>),
    ) -> Result<(), Broken> {
        let bytes = self.buffer.get(value).unwrap_or_default();
        match self.position {
            Position::Key => {
                let text = if is_whole { Json::parse(bytes) } else { None };
                let Some(Json::Text(key)) = text else {
                    return Err(Broken::Syntax(begin));
                };
                self.key = match &*key {
                    "traceEvents" => Key::TraceEvents,
                    "systemTraceEvents" => Key::SystemTraceEvents,
                    "displayTimeUnit" => Key::DisplayTimeUnit,
                    "metadata" => Key::Metadata,
                    _ => Key::Other,
                };
                self.position = Position::Colon;
            }
            Position::Value => {
                self.position = Position::Key;
                match self.key {
                    Key::DisplayTimeUnit => each(Part::DisplayTimeUnit),
                    Key::Metadata if is_whole => each(Part::Metadata(bytes)),
                    _ => {}
                }
            }
            _ if is_whole && bytes.starts_with(b"{") => each(Part::Event(begin, bytes)),
            _ => each(Part::NoEvent(begin)),
        }
        Ok(())
    }

    /// Returns the end of the value that begins at `start`, if it is in the buffer. All kinds of
    /// brackets count alike, since the value is parsed later.
    fn find_end(&mut self) -> Option<usize> {
        let bytes = self.buffer.get(self.start..)?;
        let scan = &mut self.scan;
        for (at, &byte) in bytes.iter().enumerate().skip(scan.at) {
            let end = self.start + at;
            if scan.escaped {
                scan.escaped = false;
            } else if scan.in_string {
                match byte {
                    b'\\' => scan.escaped = true,
                    b'"' => {
                        scan.in_string = false;
                        if scan.depth == 0 {
                            return Some(end + 1);
                        }
                    }
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => scan.in_string = true,
                    b'{' | b'[' => scan.depth += 1,
                    b'}' | b']' if scan.depth == 0 => return Some(end),
                    b'}' | b']' => {
                        scan.depth -= 1;
                        if scan.depth == 0 {
                            return Some(end + 1);
                        }
                    }
                    b',' if scan.depth == 0 => return Some(end),
                    _ => {}
                }
            }
        }
        scan.at = bytes.len();
        None
    }

    /// Reads the string that contains all kernel events.
    fn step_system(&mut self, each: &mut impl FnMut(Part<'_>)) -> Result<bool, Broken> {
        while let Some(&byte) = self.buffer.get(self.start) {
            self.start += 1;
            if !self.escape.is_empty() {
                self.escape.push(byte);
                self.unescape();
                if self.line.last() == Some(&b'\n') {
                    self.line.pop();
                    self.emit_line(each);
                }
                continue;
            }
            match byte {
                b'\\' => self.escape.push(byte),
                b'"' => {
                    self.emit_line(each);
                    self.position = Position::Key;
                    return Ok(true);
                }
                b'\n' => self.emit_line(each),
                _ if self.line.len() < self.max_value => self.line.push(byte),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Appends the character of an escape sequence once it is complete.
    fn unescape(&mut self) {
        let needed = if self.escape.get(1) == Some(&b'u') {
            6
        } else {
            2
        };
        if self.escape.len() < needed {
            return;
        }
        let quoted = [b"\"", &self.escape[..], b"\""].concat();
        // A lone surrogate is left out.
        if let Some(Json::Text(text)) = Json::parse(&quoted) {
            self.line.extend_from_slice(text.as_bytes());
        }
        self.escape.clear();
    }

    fn emit_line(&mut self, each: &mut impl FnMut(Part<'_>)) {
        if !self.line.is_empty() {
            each(Part::SystemLine(&String::from_utf8_lossy(&self.line)));
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pieces: &[&[u8]], max_value: usize) -> (Vec<String>, Result<(), Broken>) {
        let mut reader = Reader {
            max_value,
            ..Reader::default()
        };
        let mut seen = Vec::new();
        let mut each = |part: Part<'_>| {
            seen.push(match part {
                Part::Event(at, bytes) => format!("{at} {}", String::from_utf8_lossy(bytes)),
                Part::SystemLine(line) => format!("line {line}"),
                Part::DisplayTimeUnit => "unit".to_owned(),
                Part::Metadata(bytes) => format!("metadata {}", String::from_utf8_lossy(bytes)),
                Part::NoEvent(at) => format!("no event at {at}"),
            });
        };
        let mut result = Ok(());
        for piece in pieces {
            result = result.and_then(|()| reader.push(piece, &mut each));
        }
        let result = result.and_then(|()| reader.finish(&mut each));
        (seen, result)
    }

    fn check(text: &str, expected: &[&str], end: Result<(), Broken>) {
        let whole = parts(&[text.as_bytes()], MAX_VALUE);
        assert_eq!(
            whole,
            (expected.iter().map(|&s| s.to_owned()).collect(), end),
            "{text}"
        );
        let bytes: Vec<_> = text.as_bytes().chunks(1).collect();
        assert_eq!(parts(&bytes, MAX_VALUE), whole, "{text}");
    }

    #[test]
    fn parts_are_the_same_however_the_bytes_are_split() {
        check(
            r#"[{"a":"]}"},{"b":[1]}]"#,
            &[r#"1 {"a":"]}"}"#, r#"12 {"b":[1]}"#],
            Ok(()),
        );
        check(
            r#"{"x":{"y":[]}, "traceEvents":[ {} ,], "displayTimeUnit":"ns","metadata":{"k":1}}"#,
            &["31 {}", "unit", r#"metadata {"k":1}"#],
            Ok(()),
        );
        check(
            r#"{"systemTraceEvents":"a\tb\nc \"d\" \u00e9\n", "n": 5}"#,
            &["line a\tb", "line c \"d\" é"],
            Ok(()),
        );
        // The traces of crashed programs have no end.
        check("[{},", &["1 {}"], Ok(()));
        check(
            r#"{"traceEvents":[{}"#,
            &["16 {}"],
            Err(Broken::Unterminated),
        );
        check(
            "[1, {}, \"x\"]",
            &["no event at 1", "4 {}", "no event at 8"],
            Ok(()),
        );
        check("x", &[], Err(Broken::Syntax(0)));
        check(r#"{"traceEvents":1}"#, &[], Err(Broken::Syntax(15)));
    }

    #[test]
    fn a_too_large_value_is_skipped_in_bounded_memory() {
        let large = format!("[{{\"a\":\"{}\"}},{{}}]", "x".repeat(5000));
        let pieces: Vec<_> = large.as_bytes().chunks(100).collect();
        let (seen, end) = parts(&pieces, 1000);
        assert_eq!(seen, ["no event at 1", "5010 {}"]);
        assert_eq!(end, Ok(()));
    }
}
