//! Places in the source of a program.

/// A frame of a call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame<'a> {
    /// The function.
    pub function: &'a str,
    /// The file it is in; empty if that is not known.
    pub file: &'a str,
    /// The line there; 0 if that is not known.
    pub line: u32,
}

/// A line of source. [`here!`](crate::here) makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// The file.
    pub file: &'static str,
    /// The function or module; empty if that is not known.
    pub function: &'static str,
    /// The line, counted from 1.
    pub line: u32,
}
