//! Faults of packet sequences, independent of the packets' content.

/// The reason why a packet, or a part of it, is unusable. Each reader counts faults as its own
/// errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The packet has no sequence id.
    NoSequence,
    /// The packet needs incremental state that was lost.
    StateInvalid,
    /// There are too many sequences.
    TooManySequences,
    /// An interned entry has no iid.
    EntryWithoutIid,
    /// An iid is redefined with another entry.
    Redefined,
    /// No snapshot relates the clock of a time to the others.
    UnknownClock,
    /// A time exceeds a signed number of nanoseconds.
    InvalidTime,
    /// A snapshot contains a clock of a sequence but has no sequence id.
    SnapshotWithoutSequence,
    /// A snapshot contains a clock twice.
    SnapshotDuplicate,
}

/// Receives the faults that leave the rest of a packet valid.
pub type FaultSink<'a> = &'a mut dyn FnMut(Fault);
