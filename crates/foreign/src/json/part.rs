//! The parts of a JSON trace, and the reasons why a file is none.

use std::fmt;

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
    /// An event at this offset that has no end. The rest of its line is left out.
    Unterminated(u64),
    /// A value of callstack samples under this key, or an element of it if it is a list.
    Samples(&'static str, &'a [u8]),
    /// A function of callstack samples with its id.
    StackFrame(&'a str, &'a [u8]),
    /// A value of callstack samples under this key, which is too large. It begins at this offset.
    TooLarge(&'static str, u64),
}

/// The reason why a file cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Unexpected text or end of the file at this offset.
    Syntax(u64),
    /// The file ends within the outer object.
    Unterminated,
    /// The file ends within the event at this offset.
    InEvent(u64),
    /// The file is JSON, but of this kind.
    NoTrace(&'static str),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(offset) => write!(f, "not a JSON trace: unexpected text at byte {offset}"),
            Self::Unterminated => f.write_str("JSON trace file is incomplete (ERR:tp-corrupt)"),
            Self::InEvent(offset) => {
                write!(f, "the file ends inside the event at byte {offset}")
            }
            Self::NoTrace(what) => write!(f, "{what}, not a trace: it has no \"traceEvents\""),
        }
    }
}
