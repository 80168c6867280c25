//! Events that wait in the sorter.

use super::arena::Span;
use crate::strings::StringId;

/// An event, as much of it as was decoded in the order of the file.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::enum_variant_names, reason = "a track event is called so")]
pub(crate) enum Event {
    /// A packet that is read when its time has come, by the topic that this field of `TracePacket`
    /// belongs to.
    Packet {
        /// The number of the field.
        field: u32,
        /// The value of the field.
        span: Span,
    },
    /// A track event.
    TrackEvent {
        /// The encoded `TrackEvent`.
        span: Span,
        /// The place of what was decoded in the order of the file, if there is something.
        extra: Option<std::num::NonZeroU32>,
    },
    /// A line or object of a file that has no packets.
    Line {
        kind: LineKind,
        /// Its text.
        span: Span,
        /// Its place among lines of the same time.
        rank: i64,
    },
    /// A kernel event.
    Ftrace {
        /// The CPU.
        cpu: u16,
        /// The encoded `FtraceEvent`.
        span: Span,
    },
    /// All context switches or wake-ups of a bundle in compact form, which become events of their
    /// own when their time has come.
    Compact {
        /// The CPU.
        cpu: u16,
        kind: CompactKind,
        /// The encoded `CompactSched`.
        span: Span,
    },
    /// A value of a power rail, by its place among those that wait.
    PowerRail(u32),
    /// A context switch in compact form.
    Switch(CompactSwitch),
    /// A wake-up in compact form.
    Waking(CompactWaking),
}

/// A kind of events in compact form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactKind {
    Switches,
    Wakings,
}

/// The kind of a line or object of a file that has no packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// An event in JSON.
    Json,
    /// A kernel event as text.
    Systrace,
    /// A line of `strace`.
    Strace,
    /// A sample of `perf script`.
    PerfText,
}

/// A line of a file that has no packets, as it is handed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) ts: i64,
    pub(crate) kind: LineKind,
    /// Its place among lines of the same time.
    pub(crate) rank: i64,
}

/// A context switch. The thread that leaves the CPU is the one that got it last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactSwitch {
    pub(crate) cpu: u16,
    pub(crate) prev_state: i32,
    pub(crate) next_pid: i32,
    pub(crate) next_prio: i32,
    pub(crate) next_comm: StringId,
}

/// A wake-up, by the thread that is on the CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactWaking {
    pub(crate) cpu: u16,
    pub(crate) target_cpu: u16,
    pub(crate) prio: u16,
    pub(crate) common_flags: u16,
    pub(crate) pid: i32,
    pub(crate) comm: StringId,
}

impl Event {
    /// Returns its place among events of the same time and stream.
    #[inline]
    pub(crate) fn rank(&self) -> i64 {
        match self {
            Self::Line { rank, .. } => *rank,
            _ => i64::MAX,
        }
    }

    /// Returns the bytes it refers to.
    #[inline]
    pub(crate) fn span(&self) -> Option<Span> {
        match self {
            Self::Packet { span, .. }
            | Self::TrackEvent { span, .. }
            | Self::Line { span, .. }
            | Self::Compact { span, .. }
            | Self::Ftrace { span, .. } => Some(*span),
            Self::Switch(_) | Self::Waking(_) | Self::PowerRail(_) => None,
        }
    }
}
