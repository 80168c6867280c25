//! Problems with the samples of a trace.

use std::fmt;

/// Something that a viewer would drop or show without its callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Problem {
    /// A packet that is not well-formed.
    MalformedPacket,
    /// A packet that needs incremental state that was lost before it.
    StateInvalid,
    /// A sample without a packet sequence.
    NoSequence,
    /// A dictionary entry that was defined as something else; the first definition holds.
    Redefined,
    /// A string that the dictionary does not have.
    UnknownString,
    /// A mapping that the dictionary does not have.
    UnknownMapping,
    /// A frame that the dictionary does not have.
    UnknownFrame,
    /// A callstack that the dictionary does not have.
    UnknownCallstack,
    /// A task, CPU or counter description that the dictionary does not have.
    UnknownContext,
    /// A callstack without frames.
    EmptyCallstack,
    /// A sample without a time.
    NoTime,
    /// A time on a clock that the trace does not tell about.
    UnknownClock,
    /// Symbols of a file that no frame is in.
    SymbolsWithoutMapping,
    /// More frames, callstacks or writers than are told apart.
    TooMany,
}

impl Problem {
    /// The problem in a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MalformedPacket => "malformed packet",
            Self::StateInvalid => "packet that needs what was lost",
            Self::NoSequence => "sample without a sequence",
            Self::Redefined => "dictionary entry defined as something else",
            Self::UnknownString => "string that the dictionary does not have",
            Self::UnknownMapping => "mapping that the dictionary does not have",
            Self::UnknownFrame => "frame that the dictionary does not have",
            Self::UnknownCallstack => "callstack that the dictionary does not have",
            Self::UnknownContext => "context that the dictionary does not have",
            Self::EmptyCallstack => "callstack without frames",
            Self::NoTime => "sample without a time",
            Self::UnknownClock => "time on an unknown clock",
            Self::SymbolsWithoutMapping => "symbols of a file that no frame is in",
            Self::TooMany => "more than is told apart",
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
