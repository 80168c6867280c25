//! Records that the kernel writes into a ring: samples, and events around them.
//!
//! Records borrow from the ring and are only valid during the function that receives them. Every
//! length in them has been checked: no content of the ring makes parsing panic, loop or read out of
//! bounds.

mod callchain;
mod parse;
mod registers;
mod totals;

pub use ferretto_format::CpuMode;
pub use ferretto_format::perf_record::Words;

pub use callchain::Callchain;
pub use parse::{Counts, Format, parse};
pub use registers::{Abi, REGISTER_MASK, UserRegisters};
pub use totals::Totals;

/// One record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(SampleRecord<'a>),
    /// Records, samples or others, that did not fit into the ring since the last such record.
    Lost {
        /// Their number.
        count: u64,
    },
    /// The event fired too often: the kernel disabled it until the next timer tick.
    Throttle {
        /// The time on the clock of samples.
        time: u64,
    },
    /// The event is enabled again.
    Unthrottle {
        /// The time on the clock of samples.
        time: u64,
    },
    /// A new thread or process.
    Fork(TaskRecord),
    /// A thread has ended.
    Exit(TaskRecord),
    /// A task has a new name.
    Comm {
        /// The time on the clock of samples; 0 if unknown.
        time: u64,
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Set if the task executed a program: then the process has new memory.
        exec: bool,
        /// The name, without trailing zero bytes.
        name: &'a [u8],
    },
    /// A new executable mapping.
    Mmap2 {
        /// The time on the clock of samples; 0 if unknown.
        time: u64,
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The first address.
        start: u64,
        /// The length in bytes.
        length: u64,
        /// The offset in the file.
        offset: u64,
        /// Major and minor number of the file's device; 0 without a file, or if the record contains
        /// a build id instead.
        device: (u32, u32),
        /// The inode of the file, likewise.
        inode: u64,
        /// The path of the file, or a name such as `//anon` or `[vdso]`.
        path: &'a [u8],
    },
    /// A task was switched in or out.
    Switch(SwitchRecord),
    /// A record of another kind.
    Other {
        /// The kernel's number of the type.
        kind: u32,
    },
    /// Malformed bytes, which were skipped.
    Malformed {
        /// Their number.
        bytes: usize,
    },
}

/// A sample in the memory of the ring.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRecord<'a> {
    /// The time in nanoseconds on the plan's clock.
    pub time: u64,
    /// The process; -1 as a number if it has just exited.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU of the ring.
    pub cpu: u32,
    /// The mode of the CPU.
    pub cpu_mode: CpuMode,
    /// The counts since the events were enabled: the timebase, then the followers. There is one for
    /// each event; zero if the kernel gave none.
    pub counts: &'a [u64],
    /// The user's registers; `None` if they are not sampled, and for kernel threads.
    pub registers: Option<UserRegisters<'a>>,
    /// The valid bytes of the copy of the user's stack, from the stack pointer on.
    pub stack: &'a [u8],
    /// Set if the copy has its maximum size: then the stack continues beyond it.
    pub stack_maxed: bool,
    /// Frames that the kernel found.
    pub callchain: Callchain<'a>,
}

/// The start or end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRecord {
    /// The time on the clock of samples.
    pub time: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The process of the parent.
    pub parent_pid: u32,
    /// The thread of the parent.
    pub parent_tid: u32,
}

impl TaskRecord {
    /// Returns true for the main thread of a process.
    pub fn is_process(&self) -> bool {
        self.pid == self.tid
    }
}

/// A context switch on this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchRecord {
    /// The time on the clock of samples; 0 if unknown.
    pub time: u64,
    /// The process of the task.
    pub pid: u32,
    /// The thread id of the task.
    pub tid: u32,
    /// Set if the task was switched out rather than in.
    pub out: bool,
    /// Set if the task was preempted.
    pub preempted: bool,
    /// Process and thread of the next or previous task, if whole CPUs are observed.
    pub other: Option<(u32, u32)>,
}
