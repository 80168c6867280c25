//! The states of a writer.

/// The state of a writer, and the calls that change it.
///
/// ```text
/// from        call             to          if
/// ─────────── ──────────────── ─────────── ──────────────────────────────────────────────────────
/// Idle        start_packet     Writing     there is a free chunk
///                              Discarding  there is none; the arbiter is told of the loss
/// Ready       start_packet     Writing     the chunk has room for it, or there is another one
///                              Discarding  neither; the chunk, handed over, tells of the loss
///             append_packet,   Ready       the packet fits: it is written in one step
///             short_packet
///             flush            Idle        always: the chunk is handed over
/// Writing     write, open      Writing     what does not fit goes on in another chunk
///                              Discarding  there is none; the packet is marked as abandoned
///             finish_packet    Ready       the chunk has room left, and writers are not too many
///                              Idle        otherwise: the chunk is handed over
/// Discarding  finish_packet    Dropping    always
/// Dropping    start_packet     Writing     enough was discarded, and there is a free chunk again;
///                                          the packet tells of the loss
///                              Discarding  otherwise
/// ```
///
/// Only the thread that owns the writer changes the state. A writer without shared memory is
/// `Dropping` and `Discarding` only: its packets go to its [`Destination`](super::Destination).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Between packets, without a chunk.
    Idle,
    /// Between packets, with a chunk that has room and counts one fragment more than there is: the
    /// next packet is counted ahead, so that a scraper, which skips the last fragment counted,
    /// takes the one before it.
    Ready,
    /// In a packet, with a chunk.
    Writing(Fragment),
    /// In a packet, without a chunk: the rest of it, or all, is discarded.
    Discarding,
    /// Between packets, after one that was discarded. A chunk is looked for again once so much has
    /// been discarded that one may be free.
    Dropping,
}

/// The length of the fragment that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    /// Its place in the payload.
    pub(super) at: usize,
    pub(super) width: Width,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// One byte, with room to become four.
    Narrow,
    /// Four bytes, with the chance to become one.
    Wide,
    /// Four bytes: the fragment continues one of the previous chunk.
    Continued,
}
