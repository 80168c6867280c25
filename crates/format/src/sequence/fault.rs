//! Faults of sequences of packets, independent of the packets' content.

/// Why a packet, or a part of it, means nothing. Each reader counts it among its own problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It names no sequence.
    NoSequence,
    /// It needs incremental state of earlier packets, which is lost.
    StateInvalid,
    /// There are more sequences than are faults apart.
    TooManySequences,
    /// An entry of the dictionary without an iid.
    EntryWithoutIid,
    /// An iid that is defined again as something else.
    Redefined,
    /// A time on a clock that no snapshot relates to the others.
    UnknownClock,
    /// A time that is beyond what a signed number of nanoseconds holds.
    InvalidTime,
    /// A snapshot with a clock of a sequence but without a sequence id.
    SnapshotWithoutSequence,
    /// A snapshot that has a clock twice.
    SnapshotDuplicate,
}

/// Takes the faults that leave the rest of a packet valid.
pub type FaultSink<'a> = &'a mut dyn FnMut(Fault);
