//! Behaviour of a writer that finds no free chunk.

/// The behaviour of a writer that finds no free chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExhaustedPolicy {
    /// Discards packets until there is a chunk. The first packet after that reports the loss.
    #[default]
    Drop,
    /// Waits for about 29 seconds, then aborts the process.
    StallThenAbort,
    /// Waits for about 29 seconds, then discards packets.
    StallThenDrop,
}
