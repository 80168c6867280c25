//! The causes of the parts of an interval, and its waits.

use std::ops::Range;

use ferretto_tables::StringId;

use crate::kind::WaitKind;
use crate::partition::{Part, Wait};
use crate::schedule::Waker;

/// The cause of a part of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// It ran its own code.
    User,
    /// It ran in system calls: those within this cause, in [`Share`](crate::Share)s.
    Calls,
    /// It ran in this system call.
    Call(StringId),
    /// It entered or left a system call.
    Entry,
    /// It ran in the kernel, handling page faults.
    PageFault,
    /// It ran in the kernel, outside of system calls.
    Kernel,
    /// It ran; the trace does not tell whether in the kernel.
    Running,
    /// An interrupt of this name had its CPU.
    Interrupt(StringId),
    /// It waited for a CPU, which another thread had.
    Behind(u32),
    /// It waited for a CPU that was idle and about to run it.
    Wakeup,
    /// It waited for a CPU that was idle for longer than a wake-up takes: the limit of this control
    /// group held it back, or may have if the trace does not tell.
    Idle(Option<StringId>),
    /// It waited for a CPU. In [`Piece`]s, the trace does not tell which.
    Cpu,
    /// It waited for something of this kind, until this thread ended the wait, or an interrupt.
    Wait(WaitKind, Option<u32>),
    /// It did not exist yet, or had ended.
    Absent,
    /// Events of the scheduler are missing.
    Lost,
    /// The chain of waits is too long.
    TooDeep,
}

impl Cause {
    /// Returns the name of the cause in JSON and SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Calls => "system-calls",
            Self::Call(_) => "system-call",
            Self::Entry => "system-call-entry",
            Self::PageFault => "page-fault",
            Self::Kernel => "kernel",
            Self::Running => "running",
            Self::Interrupt(_) => "interrupt",
            Self::Behind(_) => "cpu-behind",
            Self::Wakeup => "cpu-wakeup",
            Self::Idle(_) => "cpu-idle",
            Self::Cpu => "cpu",
            Self::Wait(..) => "wait",
            Self::Absent => "absent",
            Self::Lost => "lost",
            Self::TooDeep => "too-deep",
        }
    }
}

/// A part of an interval with its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The beginning, in nanoseconds.
    pub start: i64,
    /// The end, exclusive.
    pub end: i64,
    /// The thread: the selected one, or the one at the end of the chain of waits.
    pub thread: u32,
    /// The innermost wait: an index in [`Explanation::waits`].
    pub wait: Option<u32>,
    /// The cause. For a wait that no thread explains, the wait itself.
    pub cause: Cause,
    /// The sampled callstack that it counts for: `stack_profile_callsite.id`.
    pub callsite: Option<u32>,
}

/// A wait, with what the trace tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplainedWait {
    /// The wait.
    pub wait: Wait,
    /// The kind.
    pub kind: WaitKind,
    /// The system call in which it waited.
    pub call: Option<StringId>,
    /// The address of the lock.
    pub address: Option<u64>,
    /// The callstack with which it began: `stack_profile_callsite.id`.
    pub callsite: Option<u32>,
    /// The callstack of the thread that ended it, of the nearest sample:
    /// `stack_profile_callsite.id`.
    pub waker_callsite: Option<u32>,
    /// The interrupt that ended it.
    pub interrupt: Option<StringId>,
}

impl ExplainedWait {
    /// Returns the thread that ended the wait.
    pub fn waker(&self) -> Option<u32> {
        match self.wait.state.waker {
            Waker::Thread(thread) => Some(thread),
            Waker::Interrupt(_) | Waker::Unknown => None,
        }
    }

    /// Returns true if an interrupt ended the wait, or a timer.
    pub fn is_ended_by_interrupt(&self) -> bool {
        matches!(self.wait.state.waker, Waker::Interrupt(_))
    }

    /// Returns the CPU of the interrupt that ended the wait: `cpu.id`.
    pub fn interrupt_ucpu(&self) -> Option<u32> {
        match self.wait.state.waker {
            Waker::Interrupt(ucpu) => ucpu,
            Waker::Thread(_) | Waker::Unknown => None,
        }
    }

    /// Returns the cause that the wait is.
    pub fn cause(&self) -> Cause {
        Cause::Wait(self.kind, self.waker())
    }
}

/// The causes of an interval of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The thread: `thread.id`.
    pub thread: u32,
    /// The interval in nanoseconds.
    pub interval: Range<i64>,
    /// The parts, in the order of time. They cover the interval without gaps and overlaps.
    pub pieces: Vec<Piece>,
    /// The waits, each after the one that it explains.
    pub waits: Vec<ExplainedWait>,
}

impl Explanation {
    /// Returns the number of waits between the selected thread and the one of a piece.
    pub fn depth(&self, piece: &Piece) -> u32 {
        let wait = piece.wait.and_then(|wait| self.waits.get(wait as usize));
        wait.map_or(0, |wait| {
            // The last wait of a chain is a state of the thread itself.
            wait.wait.depth + u32::from(wait.wait.thread != piece.thread)
        })
    }

    /// Adds a piece of a part, or extends the last one by it.
    pub(crate) fn add(
        &mut self,
        part: &Part,
        (start, end): (i64, i64),
        cause: Cause,
        callsite: Option<u32>,
    ) {
        if start >= end {
            return;
        }
        let piece = Piece {
            start,
            end,
            thread: part.thread,
            wait: part.wait,
            cause,
            callsite,
        };
        if let Some(last) = self.pieces.last_mut()
            && (last.thread, last.wait, last.cause) == (piece.thread, piece.wait, piece.cause)
            && (last.callsite, last.end) == (callsite, start)
        {
            last.end = end;
            return;
        }
        self.pieces.push(piece);
    }
}
