//! Windows of time.

/// A window of time, and its resolution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The start, in nanoseconds from the start of the trace.
    pub from: f64,
    /// The end.
    pub to: f64,
    /// Steps are 2^`level` ns.
    pub level: u8,
}
