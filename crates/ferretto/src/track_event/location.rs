//! Source locations.

/// A frame of a callstack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame<'a> {
    /// The function.
    pub function: &'a str,
    /// The source file; empty if it is unknown.
    pub file: &'a str,
    /// The line; 0 if it is unknown.
    pub line: u32,
}

/// A source location. Created by [`here!`](crate::here).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// The file.
    pub file: &'static str,
    /// The function or module; empty if it is unknown.
    pub function: &'static str,
    /// The line, starting at 1.
    pub line: u32,
}
