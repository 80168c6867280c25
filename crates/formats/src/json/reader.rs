//! The parts of a JSON trace, taken out of its bytes as they come.

use std::fmt;
use std::ops::Range;

use super::value::Json;

/// Values of more bytes are skipped.
const MAX_VALUE: usize = 16 << 20;

/// A part of the file.
#[derive(Debug)]
pub enum Part<'a> {
    /// An event, and the place where it begins in the file.
    Event(u64, &'a [u8]),
    /// A line of kernel events as text.
    SystemLine(&'a str),
    /// The file asks for a unit of display.
    DisplayTimeUnit,
    /// Further facts that the file tells about itself.
    Metadata(&'a [u8]),
    /// Something between events, at this place, is no event, or too large for one.
    NoEvent(u64),
}

/// The file cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// It is no JSON trace; at this place it should be, or it ends too early there.
    Syntax(u64),
    /// The file ends within the object that it is.
    Unterminated,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(offset) => write!(f, "no JSON trace: unexpected text at byte {offset}"),
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
    /// Behind a key, before its colon.
    Colon,
    /// Before the value of a key.
    Value,
    /// In the array of events, before an event or the end.
    Events,
    /// In the text of kernel events.
    System,
    /// Behind the end.
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

/// The part of a value that was looked at, to find its end.
#[derive(Debug, Default)]
struct Scan {
    /// Bytes that were looked at.
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Bytes of it that are gone, as it is too large.
    dropped: u64,
}

/// Takes a JSON trace apart.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
    /// The first byte that is still needed.
    start: usize,
    /// The place of the buffer in the file.
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
    /// Hands out the parts that end in these bytes.
    ///
    /// # Errors
    ///
    /// If it is no JSON trace.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Part<'_>)) -> Result<(), Broken> {
        self.buffer.drain(..self.start);
        self.offset += self.start as u64;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
        while self.step(&mut each)? {}
        Ok(())
    }

    /// The end of the file.
    ///
    /// # Errors
    ///
    /// If the file is not whole.
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

    /// Takes white space away, and returns the byte behind it.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.buffer.get(self.start..)?;
        let space = rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        self.start += space;
        self.buffer.get(self.start).copied()
    }

    /// Goes on by one token. Returns false if there are not enough bytes for it.
    fn step(&mut self, each: &mut impl FnMut(Part<'_>)) -> Result<bool, Broken> {
        if self.position == Position::System {
            return self.step_system(each);
        }
        if self.scan.at > 0 || self.scan.dropped > 0 {
            // Within a value.
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

    /// Looks for the end of the value that begins at `start`.
    fn step_value(&mut self, each: &mut impl FnMut(Part<'_>)) -> Result<bool, Broken> {
        let Some(end) = self.find_end() else {
            if self.buffer.len() - self.start > self.max_value {
                // Bytes already read are not needed.
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

    /// Returns the end of the value that begins at `start`, if it is there. Brackets are counted
    /// whatever their kind: the value itself is read by others.
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

    /// Reads the text of kernel events, which is a string with all of them.
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

    /// Appends the character of an escape, once all of it is there.
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
        // Half a pair of surrogates is left out.
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
    fn parts_are_found_wherever_the_bytes_are_cut() {
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
        // Traces of programs that crashed have no end.
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
    fn a_value_that_is_too_large_is_skipped_in_bounded_memory() {
        let large = format!("[{{\"a\":\"{}\"}},{{}}]", "x".repeat(5000));
        let pieces: Vec<_> = large.as_bytes().chunks(100).collect();
        let (seen, end) = parts(&pieces, 1000);
        assert_eq!(seen, ["no event at 1", "5010 {}"]);
        assert_eq!(end, Ok(()));
    }
}
