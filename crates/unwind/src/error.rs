//! Reasons of incomplete callstacks.

/// The reason why a walk ended before the outermost frame. Names and numbers are those of
/// `StackUnwindError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum UnwindError {
    /// Memory with a frame's values cannot be read: it was not copied, or is gone.
    #[error("MEMORY_INVALID")]
    MemoryInvalid,
    /// The unwind tables for the code are missing, damaged, or too expensive.
    #[error("UNWIND_INFO")]
    UnwindInfo,
    /// The machine or its mode is not supported.
    #[error("UNSUPPORTED")]
    Unsupported,
    /// No code is mapped at an address.
    #[error("INVALID_MAP")]
    InvalidMap,
    /// The callstack has more than [`Process::MAX_FRAMES`](crate::Process::MAX_FRAMES) frames.
    #[error("MAX_FRAME_EXCEEDED")]
    MaxFramesExceeded,
    /// The stack has a cycle.
    #[error("REPEATED_FRAME")]
    RepeatedFrame,
    /// The maps of the process cannot be read or parsed.
    #[error("MAPS_PARSE")]
    MapsParse,
}

impl UnwindError {
    /// Returns the number in the trace (`Profiling.StackUnwindError`).
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::MemoryInvalid => 2,
            Self::UnwindInfo => 3,
            Self::Unsupported => 4,
            Self::InvalidMap => 5,
            Self::MaxFramesExceeded => 6,
            Self::RepeatedFrame => 7,
            Self::MapsParse => 13,
        }
    }

    /// Returns the name of the frame that represents the error: `ERROR ` and the name of the code.
    #[must_use]
    pub(crate) fn frame_name(self) -> &'static str {
        match self {
            Self::MemoryInvalid => "ERROR MEMORY_INVALID",
            Self::UnwindInfo => "ERROR UNWIND_INFO",
            Self::Unsupported => "ERROR UNSUPPORTED",
            Self::InvalidMap => "ERROR INVALID_MAP",
            Self::MaxFramesExceeded => "ERROR MAX_FRAME_EXCEEDED",
            Self::RepeatedFrame => "ERROR REPEATED_FRAME",
            Self::MapsParse => "ERROR MAPS_PARSE",
        }
    }
}
