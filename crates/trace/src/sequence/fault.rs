//! What can be wrong with a sequence of packets, whatever is in them.

/// Why a packet, or a part of it, means nothing. Each reader counts it among its own problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It names no sequence.
    NoSequence,
    /// It needs what earlier packets said, which is lost.
    StateInvalid,
    /// There are more sequences than are told apart.
    TooManySequences,
    /// An entry of the dictionary without a number.
    EntryWithoutNumber,
    /// A number of the dictionary that is defined again as something else.
    Redefined,
    /// A time on a clock that no snapshot relates to the others.
    UnknownClock,
    /// A time that is beyond what a signed number of nanoseconds holds.
    InvalidTime,
    /// A snapshot with a clock of a sequence but without the number of one.
    SnapshotWithoutSequence,
    /// A snapshot that has a clock twice.
    SnapshotDuplicate,
}

/// Where faults go that leave the rest of a packet what it is.
pub(crate) type Told<'a> = &'a mut dyn FnMut(Fault);
