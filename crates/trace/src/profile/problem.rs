//! Problems with the samples of a trace.

use std::fmt;

/// Data that a viewer would drop or show without its callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Problem {
    /// A malformed packet.
    MalformedPacket,
    /// A packet whose incremental state was lost.
    StateInvalid,
    /// A sample without a packet sequence.
    NoSequence,
    /// An iid that was defined with another value before; the first definition is kept.
    Redefined,
    /// A string iid that is not defined.
    UnknownString,
    /// A mapping iid that is not defined.
    UnknownMapping,
    /// A frame iid that is not defined.
    UnknownFrame,
    /// A callstack iid that is not defined.
    UnknownCallstack,
    /// A task, CPU or counter descriptor iid that is not defined.
    UnknownContext,
    /// A callstack without frames.
    EmptyCallstack,
    /// A time on a clock without snapshots in the trace.
    UnknownClock,
    /// Symbols of a file without frames.
    SymbolsWithoutMapping,
    /// Frames, callstacks or writers beyond the limits.
    TooMany,
}

impl Problem {
    /// Returns a short description of the problem.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MalformedPacket => "malformed packet",
            Self::StateInvalid => "packet whose incremental state was lost",
            Self::NoSequence => "sample without a sequence",
            Self::Redefined => "iid defined again with another value",
            Self::UnknownString => "string iid that is not defined",
            Self::UnknownMapping => "mapping iid that is not defined",
            Self::UnknownFrame => "frame iid that is not defined",
            Self::UnknownCallstack => "callstack iid that is not defined",
            Self::UnknownContext => "context iid that is not defined",
            Self::EmptyCallstack => "callstack without frames",
            Self::UnknownClock => "time on an unknown clock",
            Self::SymbolsWithoutMapping => "symbols of a file without frames",
            Self::TooMany => "data beyond a limit",
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
