//! Why a callstack is not complete.

/// Why a walk ended before the outermost frame. The names and numbers are the field's
/// (`StackUnwindError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum UnwindError {
    /// Memory that holds a frame's values cannot be read: it was not copied, or is gone.
    #[error("MEMORY_INVALID")]
    MemoryInvalid,
    /// There are no unwind tables for the code, they are damaged, or too expensive.
    #[error("UNWIND_INFO")]
    UnwindInfo,
    /// Code of a machine, or a mode on a machine, that is not unwound.
    #[error("UNSUPPORTED")]
    Unsupported,
    /// An address where no code is mapped.
    #[error("INVALID_MAP")]
    InvalidMap,
    /// More frames than [`Process::MAX_FRAMES`](crate::Process::MAX_FRAMES).
    #[error("MAX_FRAME_EXCEEDED")]
    MaxFramesExceeded,
    /// The stack leads back to where it has been.
    #[error("REPEATED_FRAME")]
    RepeatedFrame,
    /// The maps of the process cannot be read or understood.
    #[error("MAPS_PARSE")]
    MapsParse,
}

impl UnwindError {
    /// The number in the trace (`Profiling.StackUnwindError`).
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

    /// The name of the frame that stands for it: `ERROR ` and the code's name.
    #[must_use]
    pub fn frame_name(self) -> &'static str {
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
