//! Splits the byte stream of a JSON trace into its parts.

use std::ops::Range;

use super::part::{Broken, Part};
use super::value::Json;

/// UTF-8's byte order mark, with which some programs begin text files.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The largest number of bytes of a value. Larger values are skipped.
const MAX_VALUE: usize = 16 << 20;

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
    /// In a list of callstack samples, before an element or the end.
    List,
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
    /// A part of callstack samples.
    Samples(&'static str),
    Other,
}

/// Keys of the outer object by which other kinds of files are recognized.
const OTHER_KINDS: [(&str, &str); 6] = [
    ("nodes", "a CPU profile of V8 (.cpuprofile)"),
    ("head", "a heap profile of V8 (.heapprofile)"),
    (
        "$schema",
        "a file with a schema of its own, such as a profile of speedscope",
    ),
    ("libs", "a profile of Firefox"),
    ("meta", "a profile of Firefox"),
    ("snapshot", "a heap snapshot of V8 (.heapsnapshot)"),
];

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
    /// In the object of the functions of callstacks: the id of the current one.
    frame: Option<String>,
    scan: Scan,
    line: Vec<u8>,
    escape: Vec<u8>,
    max_value: usize,
    /// Set once a part of a trace was found.
    is_trace: bool,
    /// The kind of file that the keys of the outer object suggest.
    other_kind: Option<&'static str>,
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
            frame: None,
            scan: Scan::default(),
            line: Vec::new(),
            escape: Vec::new(),
            max_value: MAX_VALUE,
            is_trace: false,
            other_kind: None,
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
        let mut unterminated = None;
        while self.position == Position::Events && self.is_in_value() {
            unterminated.get_or_insert(self.here() - self.scan.dropped);
            if !self.resume(&mut each) {
                break;
            }
            while self.step(&mut each)? {}
        }
        let is_cut = !self.is_array && self.position != Position::End;
        if self.position == Position::System && !self.line.is_empty() {
            self.emit_line(&mut each);
        }
        match unterminated {
            Some(offset) => Err(Broken::InEvent(offset)),
            None if is_cut => Err(Broken::Unterminated),
            None if !self.is_trace && !self.is_array => {
                let kind = self.other_kind.unwrap_or("a JSON file of an unknown kind");
                Err(Broken::NoTrace(kind))
            }
            None => Ok(()),
        }
    }

    /// Returns true if the end of a value is missing.
    fn is_in_value(&self) -> bool {
        self.scan.at > 0 || self.scan.dropped > 0
    }

    /// Leaves out an event without an end, and continues with the next one that begins at the start
    /// of a line or after another object. Returns false if there is none.
    fn resume(&mut self, each: &mut impl FnMut(Part<'_>)) -> bool {
        each(Part::Unterminated(self.here() - self.scan.dropped));
        self.scan = Scan::default();
        let rest = self.buffer.get(self.start + 1..).unwrap_or_default();
        let mut may_begin = false;
        for (at, &byte) in rest.iter().enumerate() {
            match byte {
                b'{' if may_begin => {
                    self.start += 1 + at;
                    return true;
                }
                b'\n' | b'}' => may_begin = true,
                b',' | b' ' | b'\t' | b'\r' => {}
                _ => may_begin = false,
            }
        }
        self.start = self.buffer.len();
        false
    }

    fn here(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// Returns false if the mark is not whole.
    fn skip_byte_order_mark(&mut self) -> bool {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        if rest.starts_with(BYTE_ORDER_MARK) {
            self.start += BYTE_ORDER_MARK.len();
            return true;
        }
        if rest.len() >= BYTE_ORDER_MARK.len() {
            // Not a mark, and no JSON: an unexpected byte of another position.
            self.position = Position::End;
        }
        self.position == Position::End
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
        if self.position == Position::Start && byte == BYTE_ORDER_MARK[0] {
            return Ok(self.skip_byte_order_mark());
        }
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
            (Position::Key, b'}') if self.frame.is_some() => {
                self.frame = None;
                self.start += 1;
            }
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
                self.is_trace = true;
                self.start += 1;
            }
            (Position::Value, b'"') if self.key == Key::SystemTraceEvents => {
                self.position = Position::System;
                self.is_trace = true;
                self.start += 1;
            }
            (Position::Value, _) if self.key == Key::TraceEvents => return self.broken(),
            (Position::Value, b'[')
                if matches!(self.key, Key::Samples(_)) && self.frame.is_none() =>
            {
                self.position = Position::List;
                self.start += 1;
            }
            (Position::Value, b'{')
                if self.key == Key::Samples("stackFrames") && self.frame.is_none() =>
            {
                self.frame = Some(String::new());
                self.position = Position::Key;
                self.start += 1;
            }
            (Position::List, b',') => self.start += 1,
            (Position::List, b']') => {
                self.position = Position::Key;
                self.start += 1;
            }
            (Position::List, b'}') => return self.broken(),
            (Position::List, _) => return self.step_value(each),
            (Position::Value, _) => return self.step_value(each),
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
                if self.frame.is_some() {
                    self.frame = Some(key.into_owned());
                    self.position = Position::Colon;
                    return Ok(());
                }
                self.key = match &*key {
                    "traceEvents" => Key::TraceEvents,
                    "systemTraceEvents" => Key::SystemTraceEvents,
                    "displayTimeUnit" => Key::DisplayTimeUnit,
                    "metadata" => Key::Metadata,
                    "samples" => Key::Samples("samples"),
                    "stackFrames" => Key::Samples("stackFrames"),
                    "timeDeltas" => {
                        self.is_trace |= self.other_kind.is_some();
                        Key::Samples("timeDeltas")
                    }
                    "startTime" => Key::Samples("startTime"),
                    "endTime" => Key::Samples("endTime"),
                    "nodes" => {
                        self.other_kind = self.other_kind.or(Some(OTHER_KINDS[0].1));
                        Key::Samples("nodes")
                    }
                    other => {
                        let kind = OTHER_KINDS.iter().find(|(key, _)| *key == other);
                        self.other_kind = self.other_kind.or(kind.map(|(_, kind)| *kind));
                        Key::Other
                    }
                };
                self.position = Position::Colon;
            }
            Position::Value => {
                self.position = Position::Key;
                match self.key {
                    Key::DisplayTimeUnit => each(Part::DisplayTimeUnit),
                    Key::Metadata if is_whole => each(Part::Metadata(bytes)),
                    Key::Samples(key) if !is_whole => each(Part::TooLarge(key, begin)),
                    Key::Samples(key) => match &self.frame {
                        Some(id) => each(Part::StackFrame(id, bytes)),
                        None => each(Part::Samples(key, bytes)),
                    },
                    _ => {}
                }
            }
            Position::List => {
                if let Key::Samples(key) = self.key {
                    each(if is_whole {
                        Part::Samples(key, bytes)
                    } else {
                        Part::TooLarge(key, begin)
                    });
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
mod tests;
