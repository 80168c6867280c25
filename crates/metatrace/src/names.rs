//! The events and counters, with upstream's numbers (`metatrace_events.h`), for which trace readers
//! know the names.

/// An activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum Event {
    /// Kernel buffers are read for a flush.
    FtraceCpuFlush = 10,
    /// A kernel buffer has filled up, and all are read.
    FtraceCpuBufferWatermark = 11,
    /// Counters of the machine are read.
    ReadSysStats = 12,
    /// All processes are listed.
    PsWriteAllProcesses = 13,
    /// Processes in kernel events are looked up.
    PsOnPids = 14,
    /// The memory and times of processes are read.
    PsWriteAllProcessStats = 16,
    /// Kernel buffers are read periodically.
    FtraceReadTick = 18,
    /// The names of the kernel's functions are read.
    KallsymsParse = 21,
    /// Rings of perf events, or their counters, are read.
    ProfilerReadTick = 22,
    /// The ring of one CPU is read.
    ProfilerReadCpu = 23,
    /// An unwinder works on samples of one data source.
    ProfilerUnwindTick = 24,
    /// A sample is unwound.
    ProfilerUnwindSample = 25,
    /// The maps of a process are read for the first time.
    ProfilerMapsParse = 28,
    /// The caches of unwinders are emptied.
    ProfilerUnwindCacheClear = 30,
    /// Batteries are read.
    LinuxPowerSysfsTick = 38,
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum Counter {
    /// The number of samples waiting for unwinders.
    ProfilerUnwindQueueSize = 4,
    /// The process of the sample being unwound; 0 for none.
    ProfilerUnwindCurrentPid = 5,
    /// The number of active recordings of kernel events.
    FtraceSessions = 11,
}
