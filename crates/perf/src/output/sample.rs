//! Samples, as they are written.

use ferretto_profiling::Frame;
use ferretto_unwind::UnwindError;

use crate::record::CpuMode;

/// The packet format of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// `PerfSample` packets, as in upstream's profiler.
    #[default]
    PerfSample,
    /// `StackSample` packets, the common format of all profilers.
    StackSample,
}

/// The reason why a sample lacks its callstack; the numbers of `PerfSample.SampleSkipReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SkipReason {
    /// The process was not accessible.
    ReadStage = 1,
    /// The process did not become accessible in time.
    UnwindStage = 2,
    /// Too many samples were pending.
    UnwindEnqueue = 3,
    /// The config excludes the process.
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

/// A sample, or a reading of counters: created from a record, completed by an unwinder, and written
/// as a packet.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The time on the clock of the data source.
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    /// Process, thread and CPU mode; `None` for a reading.
    pub(crate) task: Option<Task>,
    /// The count of the timebase on this CPU.
    pub(crate) count: u64,
    /// The counts of the followers, in the order of the config.
    pub(crate) followers: Box<[u64]>,
    /// The weights in the common format, the timebase's first.
    pub(crate) weight: u64,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) mode: CpuMode,
}

/// The content of a sample besides its counts.
#[derive(Debug)]
pub(crate) enum Content {
    /// No further content.
    Counters,
    /// The time of waits of which the kernel took no callstack.
    Unsampled,
    /// A missing callstack, with the reason.
    Skipped(SkipReason),
    Stack(Stack),
}

/// A callstack, innermost frame first.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    pub(crate) frames: Vec<Frame>,
    /// The error that ended unwinding early.
    pub(crate) error: Option<UnwindError>,
}
