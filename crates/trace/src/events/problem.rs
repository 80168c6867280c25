//! Problems with track events.

use std::fmt;

use ferretto_format::sequence::Fault;

/// A reason why a viewer drops a part of a trace, or shows it differently than intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Problem {
    /// A packet that is not a well-formed message.
    MalformedPacket,
    /// A packet that needs incremental state that is lost; it is skipped.
    StateInvalid,
    /// A packet that uses or sets incremental state, without the number of a sequence.
    NoSequence,
    /// A packet of a sequence beyond the number that are told apart; it is skipped.
    TooManySequences,
    /// An entry of the dictionary without a number.
    EntryWithoutIid,
    /// A number of the dictionary that is defined again as something else; the first definition
    /// holds.
    Redefined,
    /// A number that the dictionary does not have.
    NotDefined,
    /// A track event without the number of a sequence.
    EventWithoutSequence,
    /// A track event without a time.
    EventWithoutTime,
    /// A time on a clock that no snapshot relates to the others.
    UnknownClock,
    /// A time that exceeds a signed number of nanoseconds.
    InvalidTime,
    /// A snapshot with a clock of a sequence but without the number of one.
    SnapshotWithoutSequence,
    /// A snapshot that has a clock twice.
    SnapshotDuplicate,
    /// A track event of no type.
    EventWithoutType,
    /// An argument without a name or without the name of its type; the event is kept.
    BadArgument,
    /// An argument with more nested values than are looked at.
    ArgumentTooDeep,
    /// An event with more, or larger, arguments than there is memory for; the rest of them is left
    /// out.
    EventTooLarge,
    /// Tracks, events or dictionary entries that there is no memory for.
    NoMemory,
    /// A track without a number.
    TrackWithoutUuid,
    /// A thread without the numbers of thread and process.
    ThreadWithoutNumbers,
    /// A process without its number.
    ProcessWithoutNumber,
    /// The track with number 0 has a parent.
    DefaultTrackWithParent,
    /// A child ordering that does not exist; the description is dropped.
    BadChildOrdering,
    /// A track that is described again as something else; the first description holds.
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
    /// More than eight further counter values in one event.
    TooManyExtraCounters,
    /// A further counter value without a track of its own.
    ExtraCounterWithoutTrack,
    /// The end of a slice where none is open.
    EndWithoutBegin,
    /// A slice inside 512 others of its track.
    SlicesTooDeep,
}

impl Problem {
    /// The problem in a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MalformedPacket => "malformed packet",
            Self::StateInvalid => "packet that needs what was lost",
            Self::NoSequence => "packet that needs a sequence and names none",
            Self::TooManySequences => "packet of one sequence too many",
            Self::EntryWithoutIid => "dictionary entry without a number",
            Self::Redefined => "dictionary entry defined as something else",
            Self::NotDefined => "number that the dictionary does not have",
            Self::EventTooLarge => "event larger than there is memory for",
            Self::NoMemory => "something that there is no memory for",
            Self::EventWithoutSequence => "event without a sequence",
            Self::EventWithoutTime => "event without a time",
            Self::UnknownClock => "time on an unknown clock",
            Self::InvalidTime => "impossible time",
            Self::SnapshotWithoutSequence => "clock of a sequence without a sequence",
            Self::SnapshotDuplicate => "clock twice in a snapshot",
            Self::EventWithoutType => "event without a type",
            Self::BadArgument => "argument without a name or type",
            Self::ArgumentTooDeep => "argument nested too deep",
            Self::TrackWithoutUuid => "track without a number",
            Self::ThreadWithoutNumbers => "thread without its numbers",
            Self::ProcessWithoutNumber => "process without its number",
            Self::DefaultTrackWithParent => "default track with a parent",
            Self::BadChildOrdering => "unknown order of child tracks",
            Self::ConflictingTrack => "track described as something else",
            Self::ParentNotDescribed => "track whose parent is not described",
            Self::TrackLoop => "track that is its own ancestor",
            Self::TrackTooDeep => "track with too many ancestors",
            Self::CounterWithoutTrack => "counter value without a track",
            Self::CounterWithoutValue => "counter event without a value",
            Self::NotACounter => "counter value on a track that is none",
            Self::StateWithoutTrack => "state without a track",
            Self::TooManyExtraCounters => "more than eight further counters",
            Self::ExtraCounterWithoutTrack => "further counter without a track",
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

/// The number of times that there was each problem.
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
