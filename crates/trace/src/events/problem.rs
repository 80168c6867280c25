//! Problems with track events.

use std::fmt;

use ferretto_format::sequence::Fault;

/// A reason why a viewer drops a part of a trace, or shows it differently than intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Problem {
    /// A malformed packet.
    MalformedPacket,
    /// A packet whose incremental state was lost; it is skipped.
    StateInvalid,
    /// A packet that uses or sets incremental state, without a sequence id.
    NoSequence,
    /// A packet of a sequence beyond the maximum number of sequences; it is skipped.
    TooManySequences,
    /// An interned entry without an iid.
    EntryWithoutIid,
    /// An iid that is defined again with another value; the first definition is kept.
    Redefined,
    /// An iid that is not defined.
    NotDefined,
    /// A track event without a sequence id.
    EventWithoutSequence,
    /// A track event without a time.
    EventWithoutTime,
    /// A time on a clock without snapshots.
    UnknownClock,
    /// A time that exceeds a signed 64-bit number of nanoseconds.
    InvalidTime,
    /// A snapshot with a sequence-scoped clock but without a sequence id.
    SnapshotWithoutSequence,
    /// A snapshot that contains a clock twice.
    SnapshotDuplicate,
    /// A track event without a type.
    EventWithoutType,
    /// An argument without a name or without the name of its type; the event is kept.
    BadArgument,
    /// An argument whose values are nested too deeply.
    ArgumentTooDeep,
    /// An event whose arguments exceed the memory limit; the rest of them is left out.
    EventTooLarge,
    /// Tracks, events or interned entries that exceed the memory limit.
    NoMemory,
    /// A track without a uuid.
    TrackWithoutUuid,
    /// A thread without a process id and thread id.
    ThreadWithoutNumbers,
    /// A process without a process id.
    ProcessWithoutNumber,
    /// The track with uuid 0 has a parent.
    DefaultTrackWithParent,
    /// An unknown child ordering; the descriptor is dropped.
    BadChildOrdering,
    /// A track that is described again with conflicting values; the first descriptor is kept.
    ConflictingTrack,
    /// A track whose parent is not described; its events are lost.
    ParentNotDescribed,
    /// A track that is its own ancestor.
    TrackLoop,
    /// A track with more than 98 ancestors.
    TrackTooDeep,
    /// A counter value without a track.
    CounterWithoutTrack,
    /// A counter event without a value.
    CounterWithoutValue,
    /// A counter value on a track that is not described as a counter.
    NotACounter,
    /// A state without a track.
    StateWithoutTrack,
    /// More than eight extra counter values in one event.
    TooManyExtraCounters,
    /// An extra counter value without its own track.
    ExtraCounterWithoutTrack,
    /// The end of a slice on a track without open slices.
    EndWithoutBegin,
    /// A slice inside 512 others of its track.
    SlicesTooDeep,
}

impl Problem {
    /// Returns a short description of the problem.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MalformedPacket => "malformed packet",
            Self::StateInvalid => "packet whose incremental state was lost",
            Self::NoSequence => "packet without the sequence id it needs",
            Self::TooManySequences => "packet of a sequence beyond the limit",
            Self::EntryWithoutIid => "interned entry without an iid",
            Self::Redefined => "iid defined again with another value",
            Self::NotDefined => "iid that is not defined",
            Self::EventTooLarge => "event larger than the memory limit",
            Self::NoMemory => "data beyond the memory limit",
            Self::EventWithoutSequence => "event without a sequence id",
            Self::EventWithoutTime => "event without a time",
            Self::UnknownClock => "time on an unknown clock",
            Self::InvalidTime => "impossible time",
            Self::SnapshotWithoutSequence => "sequence-scoped clock without a sequence id",
            Self::SnapshotDuplicate => "clock twice in a snapshot",
            Self::EventWithoutType => "event without a type",
            Self::BadArgument => "argument without a name or type",
            Self::ArgumentTooDeep => "argument nested too deeply",
            Self::TrackWithoutUuid => "track without a uuid",
            Self::ThreadWithoutNumbers => "thread without its ids",
            Self::ProcessWithoutNumber => "process without its id",
            Self::DefaultTrackWithParent => "default track with a parent",
            Self::BadChildOrdering => "unknown order of child tracks",
            Self::ConflictingTrack => "track with conflicting descriptors",
            Self::ParentNotDescribed => "track whose parent is not described",
            Self::TrackLoop => "track that is its own ancestor",
            Self::TrackTooDeep => "track with too many ancestors",
            Self::CounterWithoutTrack => "counter value without a track",
            Self::CounterWithoutValue => "counter event without a value",
            Self::NotACounter => "counter value on a track that is not a counter",
            Self::StateWithoutTrack => "state without a track",
            Self::TooManyExtraCounters => "more than eight extra counters",
            Self::ExtraCounterWithoutTrack => "extra counter without a track",
            Self::EndWithoutBegin => "end of a slice that never began",
            Self::SlicesTooDeep => "slice inside 512 others",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of occurrences of each problem.
pub type Problems = crate::Problems<Problem>;

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NoSequence => Self::NoSequence,
            Fault::StateInvalid => Self::StateInvalid,
            Fault::TooManySequences => Self::TooManySequences,
            Fault::EntryWithoutIid => Self::EntryWithoutIid,
            Fault::Redefined => Self::Redefined,
            Fault::UnknownClock => Self::UnknownClock,
            Fault::InvalidTime => Self::InvalidTime,
            Fault::SnapshotWithoutSequence => Self::SnapshotWithoutSequence,
            Fault::SnapshotDuplicate => Self::SnapshotDuplicate,
        }
    }
}
