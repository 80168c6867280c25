//! Records that the kernel writes into a ring: samples, and events around them.
//!
//! Records borrow from the ring and are only there while the function that is given them runs.
//! Every length in them has been checked: nothing that the ring may contain makes parsing panic,
//! loop or read elsewhere.

mod callchain;
mod parse;
mod registers;
mod totals;
mod words;

pub use callchain::Callchain;
pub use parse::{Counts, Format, parse};
pub use registers::{Abi, REGISTER_MASK, UserRegisters};
pub use totals::Totals;
pub use words::Words;

/// One record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(SampleRecord<'a>),
    /// Records that did not fit into the ring, samples or others, since the last such record.
    Lost {
        /// Their number.
        count: u64,
    },
    /// The event fired too often: the kernel stopped it until the next timer tick.
    Throttle {
        /// When, in the clock of samples.
        time: u64,
    },
    /// It fires again.
    Unthrottle {
        /// When, in the clock of samples.
        time: u64,
    },
    /// A new thread or process.
    Fork(TaskRecord),
    /// A thread has ended.
    Exit(TaskRecord),
    /// A task has a new name.
    Comm {
        /// When, in the clock of samples; 0 if unknown.
        time: u64,
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Set if it came by executing a program: then the process has new memory.
        exec: bool,
        /// The name, without the zero bytes after it.
        name: &'a [u8],
    },
    /// A new executable mapping.
    Mmap2 {
        /// When, in the clock of samples; 0 if unknown.
        time: u64,
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// First address.
        start: u64,
        /// Length in bytes.
        length: u64,
        /// Place in the file, in bytes.
        offset: u64,
        /// Major and minor number of the file's device; 0 if it is of no file, or the record tells
        /// a build id instead.
        device: (u32, u32),
        /// Number of the file on its device, likewise.
        inode: u64,
        /// Path of the file, or a name such as `//anon` or `[vdso]`.
        path: &'a [u8],
    },
    /// A task was switched in or out.
    Switch(SwitchRecord),
    /// A record of another kind.
    Other {
        /// The kernel's number of the kind.
        kind: u32,
    },
    /// Bytes that are no record: they were skipped.
    Malformed {
        /// Their number.
        bytes: usize,
    },
}

/// A sample as the kernel wrote it, in the memory of its ring.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRecord<'a> {
    /// When, in nanoseconds of the plan's clock.
    pub time: u64,
    /// Process; -1 as a number if it has just exited.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU of the ring.
    pub cpu: u32,
    /// The mode of the CPU.
    pub cpu_mode: CpuMode,
    /// The counts since the events were enabled: the timebase, then the followers. Always as many
    /// as there are events; zero for a count that the kernel did not give.
    pub counts: &'a [u64],
    /// The user's registers: `None` if they are not sampled, or if there are none because this is a
    /// kernel thread.
    pub registers: Option<UserRegisters<'a>>,
    /// The valid bytes of the copy of the user's stack, from the stack pointer on.
    pub stack: &'a [u8],
    /// Set if the copy was as long as it may be: then the stack goes on beyond it.
    pub stack_maxed: bool,
    /// Frames that the kernel found.
    pub callchain: Callchain<'a>,
}

/// The mode of the CPU when the sample was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// The kernel does not know.
    #[default]
    Unknown,
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// A hypervisor.
    Hypervisor,
    /// The kernel of a guest.
    GuestKernel,
    /// A program in a guest.
    GuestUser,
}

impl CpuMode {
    /// From the bits of a record's header.
    fn of(misc: u16) -> Self {
        match misc & 7 {
            1 => Self::Kernel,
            2 => Self::User,
            3 => Self::Hypervisor,
            4 => Self::GuestKernel,
            5 => Self::GuestUser,
            _ => Self::Unknown,
        }
    }
}

/// Beginning or end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRecord {
    /// When, in the clock of samples.
    pub time: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Process of the parent.
    pub parent_pid: u32,
    /// Thread of the parent.
    pub parent_tid: u32,
}

impl TaskRecord {
    /// Returns whether it is a whole process and not one more thread of it.
    pub fn is_process(&self) -> bool {
        self.pid == self.tid
    }
}

/// A task was switched in or out on this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchRecord {
    /// When, in the clock of samples; 0 if unknown.
    pub time: u64,
    /// Process of the task.
    pub pid: u32,
    /// The task.
    pub tid: u32,
    /// Out, or else in.
    pub out: bool,
    /// Out although it could go on.
    pub preempted: bool,
    /// The task that comes next, or that was there before: process and thread, where whole CPUs are
    /// observed.
    pub other: Option<(u32, u32)>,
}
