//! One sample, as it is written.

use ferretto_profiling::Frame;
use ferretto_unwind::UnwindError;

use crate::record::CpuMode;

/// The format in which samples are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// `PerfSample` packets, as upstream's profiler.
    #[default]
    PerfSample,
    /// `StackSample` packets, the format for any profiler.
    StackSample,
}

/// Why a sample has no callstack although it should; numbers of `PerfSample.SampleSkipReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SkipReason {
    /// The process could not be looked at.
    ReadStage = 1,
    /// It had to wait for the process to be looked at, in vain.
    UnwindStage = 2,
    /// Too many samples were waiting to be unwound.
    UnwindEnqueue = 3,
    /// The config does not want this process.
    NotInScope = 4,
}

impl SkipReason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReadStage => "skipped: the process could not be looked at",
            Self::UnwindStage => "skipped: the process could not be looked at in time",
            Self::UnwindEnqueue => "skipped: too many samples were waiting",
            Self::NotInScope => "skipped: not in scope",
        }
    }
}

/// One sample, or one reading of counters: made of a record, completed by an unwinder, and written
/// as a packet.
#[derive(Debug)]
pub(crate) struct Sample {
    /// In the clock of the data source.
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    /// Process, thread and CPU mode; `None` for a reading.
    pub(crate) task: Option<Task>,
    /// The count of the timebase on this CPU.
    pub(crate) count: u64,
    /// The counts of the followers, in the order of the config.
    pub(crate) followers: Box<[u64]>,
    /// For the common format: the weight of this sample, the timebase's first.
    pub(crate) weight: u64,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) mode: CpuMode,
}

/// The content of a sample beside its counts.
#[derive(Debug)]
pub(crate) enum Content {
    /// No more.
    Counters,
    /// No callstack, for a reason.
    Skipped(SkipReason),
    Stack(Stack),
}

/// A callstack, innermost frame first.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    pub(crate) frames: Vec<Frame>,
    /// The error that ended it before its time.
    pub(crate) error: Option<UnwindError>,
}
