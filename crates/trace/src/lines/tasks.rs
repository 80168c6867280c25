//! The prefix of a line, and names and values in it.

use std::borrow::Cow;
use std::io::Write as _;

use ferretto_text::terminal::controls;

use crate::events::Value;
use crate::profile::Profile;

/// The maximum length of a printed name, in bytes.
const MAX_NAME: usize = 256;
/// The maximum nesting depth of printed values.
const MAX_DEPTH: usize = 4;

/// The thread id of an unknown thread.
pub(super) const UNKNOWN: i32 = -1;

/// The maximum number of printed characters of a thread's name, and its width.
const MAX_TASK: usize = 16;

/// Returns a thread id as text.
pub(super) fn number(tid: i32) -> String {
    match tid {
        UNKNOWN => "?".to_owned(),
        tid => tid.to_string(),
    }
}

/// The names of threads.
pub(super) struct Tasks<'a>(&'a Profile);

impl<'a> Tasks<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        Self(profile)
    }

    /// Appends the thread and the CPU.
    pub(super) fn task(&self, line: &mut Vec<u8>, machine: u32, tid: i32, cpu: Option<u32>) {
        let name = match tid {
            0 => "<idle>",
            UNKNOWN => "<...>",
            tid => {
                let thread = self.0.thread_name(machine, tid);
                thread
                    .or_else(|| self.0.process_name(machine, tid))
                    .unwrap_or("<...>")
            }
        };
        let length = line.len();
        let (shown, count) = if is_plain(name) {
            (Cow::Borrowed(&name[..name.len().min(MAX_TASK)]), name.len())
        } else {
            let shown: String = name.chars().map(shown).take(MAX_TASK).collect();
            let count = shown.chars().count();
            (Cow::Owned(shown), count)
        };
        line.resize(length + MAX_TASK.saturating_sub(count), b' ');
        line.extend_from_slice(shown.as_bytes());
        line.push(b'-');
        // The number is in a column of seven characters.
        let start = line.len();
        match u64::try_from(tid) {
            Ok(tid) => push_digits(line, tid, 1, b'0'),
            Err(_) => line.extend_from_slice(number(tid).as_bytes()),
        }
        line.resize(line.len().max(start + 7) + 1, b' ');
        match cpu {
            Some(cpu) => {
                line.push(b'[');
                push_digits(line, cpu.into(), 3, b'0');
                line.extend_from_slice(b"] ");
            }
            None => line.extend_from_slice(b"[---] "),
        }
        if machine != 0 {
            // Writing to a vector cannot fail.
            let _ = write!(line, "machine {machine:#x} ");
        }
    }
}

/// Appends a time in nanoseconds, as seconds.
pub(super) fn time(line: &mut Vec<u8>, ns: u64) {
    push_digits(line, ns / 1_000_000_000, 6, b' ');
    line.push(b'.');
    push_digits(line, ns % 1_000_000_000, 9, b'0');
    line.extend_from_slice(b": ");
}

/// Appends a number, padded to a width. Lines have several, so this is quicker than formatting.
fn push_digits(line: &mut Vec<u8>, mut value: u64, width: usize, padding: u8) {
    let mut digits = [padding; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[start.min(digits.len() - width)..]);
}

/// Appends a name without control characters, so that the line stays intact.
pub(super) fn push(line: &mut Vec<u8>, name: &str) {
    if name.len() <= MAX_NAME && is_plain(name) {
        return line.extend_from_slice(name.as_bytes());
    }
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut utf8 = [0; 4];
    for c in name[..end].chars().map(shown) {
        line.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
    }
    if end < name.len() {
        line.extend_from_slice("…".as_bytes());
    }
}

/// Returns true if a text has only printable ASCII characters, as most have.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn shown(c: char) -> char {
    if controls(c) { '?' } else { c }
}

pub(super) fn push_value(line: &mut Vec<u8>, value: &Value, depth: usize) {
    let _ = match value {
        Value::Nothing => Ok(()),
        Value::Bool(value) => write!(line, "{value}"),
        Value::Uint(value) => write!(line, "{value}"),
        Value::Int(value) => write!(line, "{value}"),
        Value::Double(value) => write!(line, "{value}"),
        Value::Pointer(value) => write!(line, "{value:#x}"),
        Value::Text(text) | Value::Json(text) => {
            line.push(b'"');
            push(line, text);
            line.push(b'"');
            Ok(())
        }
        Value::Message(name, bytes) => {
            push(line, name);
            write!(line, "({} bytes)", bytes.len())
        }
        Value::Dict(_) | Value::Array(_) if depth >= MAX_DEPTH => write!(line, "…"),
        Value::Dict(members) => {
            line.push(b'{');
            for (index, (name, value)) in members.iter().take(16).enumerate() {
                line.extend_from_slice(if index == 0 { b"" } else { b" " });
                push(line, name);
                line.push(b'=');
                push_value(line, value, depth + 1);
            }
            write!(line, "}}")
        }
        Value::Array(values) => {
            line.push(b'[');
            for (index, value) in values.iter().take(16).enumerate() {
                line.extend_from_slice(if index == 0 { b"" } else { b" " });
                push_value(line, value, depth + 1);
            }
            write!(line, "]")
        }
    };
}
