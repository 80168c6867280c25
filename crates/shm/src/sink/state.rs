//! The states of a writer.

/// The state of a writer, and the calls that change it.
///
/// ```text
/// from        call             to          if
/// ─────────── ──────────────── ─────────── ──────────────────────────────────────────────────────
/// Idle        start_packet     Writing     there is a free chunk
///                              Discarding  there is none; the arbiter notes the loss
/// Ready       start_packet     Writing     the chunk has space for it, or there is another one
///                              Discarding  neither; the released chunk marks the loss
///             append_packet,   Ready       the packet fits: it is written in one step
///             short_packet
///             flush            Idle        always: the chunk is released
/// Writing     write, open      Writing     the rest continues in another chunk
///                              Discarding  there is none; the packet is marked as abandoned
///             finish_packet    Ready       the chunk has space, and there are few writers
///                              Idle        otherwise: the chunk is released
/// Discarding  finish_packet    Dropping    always
/// Dropping    start_packet     Writing     enough was discarded, and there is a free chunk again;
///                                          the packet reports the loss
///                              Discarding  otherwise
/// ```
///
/// Only the thread that owns the writer changes the state. A writer without shared memory is
/// `Dropping` and `Discarding` only: its packets go to its [`Destination`](super::Destination).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Between packets, without a chunk.
    Idle,
    /// Between packets, with a chunk that has space and counts one fragment more than it has. The
    /// next packet is counted ahead, so that a scraper, which skips the last counted fragment,
    /// copies all finished ones.
    Ready,
    /// In a packet, with a chunk.
    Writing(Fragment),
    /// In a packet, without a chunk: the rest of the packet is discarded.
    Discarding,
    /// Between packets, after a discarded one. The writer looks for a chunk again after a number of
    /// discarded bytes.
    Dropping,
}

/// The length of the fragment that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    /// The offset of the length in the payload.
    pub(super) at: usize,
    pub(super) width: Width,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// One byte, with space to become four.
    Narrow,
    /// Four bytes, which can become one.
    Wide,
    /// Four bytes: the fragment continues one of the previous chunk.
    Continued,
}
