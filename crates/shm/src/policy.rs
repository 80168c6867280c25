//! Behaviour of a writer that finds no free chunk.

/// The behaviour of a writer that finds no free chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExhaustedPolicy {
    /// Discards until there is one. The first packet after that says so.
    #[default]
    Drop,
    /// Waits, up to some 29 seconds, then ends the process.
    StallThenAbort,
    /// Waits, up to some 29 seconds, then discards.
    StallThenDrop,
}
