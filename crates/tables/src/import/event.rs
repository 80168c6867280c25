//! Events in the sorter.

use ferretto_format::compact_sched::CompactKind;

use super::arena::Span;
use crate::strings::StringId;

/// An event, with the data that was decoded in the order of the file.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::enum_variant_names, reason = "a track event is called so")]
pub(crate) enum Event {
    /// A packet that is parsed in the order of time, by the topic of this field of `TracePacket`.
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
        /// The index of the data that was decoded in the order of the file, if there is any.
        extra: Option<std::num::NonZeroU32>,
    },
    /// A line or object of a file without packets.
    Line {
        kind: LineKind,
        /// Its text.
        span: Span,
        /// The order among lines of the same time.
        rank: i64,
    },
    /// A kernel event.
    Ftrace {
        /// The CPU.
        cpu: u16,
        /// The encoded `FtraceEvent`.
        span: Span,
    },
    /// A kernel event of Windows.
    Etw {
        /// The CPU; one that no machine has if it is unknown.
        cpu: u16,
        /// The encoded `EtwTraceEvent`.
        span: Span,
    },
    /// All context switches or wake-ups of a compact bundle, which is expanded when it is parsed.
    Compact {
        /// The CPU.
        cpu: u16,
        kind: CompactKind,
        /// The encoded `CompactSched`.
        span: Span,
    },
    /// A value of a power rail, by its index among waiting values.
    PowerRail(u32),
    /// A value of a counter of differences, by its index among waiting values.
    Counter(u32),
    /// A compact context switch.
    Switch(CompactSwitch),
    /// A compact wake-up.
    Waking(CompactWaking),
}

/// The kind of a line or object of a file without packets.
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

/// A line of a file without packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) ts: i64,
    pub(crate) kind: LineKind,
    /// The order among lines of the same time.
    pub(crate) rank: i64,
}

/// A context switch. The previous thread is that of the last switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactSwitch {
    pub(crate) cpu: u16,
    pub(crate) prev_state: i32,
    pub(crate) next_pid: i32,
    pub(crate) next_prio: i32,
    pub(crate) next_comm: StringId,
}

/// A wake-up by the thread on the CPU.
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
    /// Returns the order among events of the same time and stream.
    #[inline]
    pub(crate) fn rank(&self) -> i64 {
        match self {
            Self::Line { rank, .. } => *rank,
            _ => i64::MAX,
        }
    }

    /// Returns the bytes to which the event refers.
    #[inline]
    pub(crate) fn span(&self) -> Option<Span> {
        match self {
            Self::Packet { span, .. }
            | Self::TrackEvent { span, .. }
            | Self::Line { span, .. }
            | Self::Etw { span, .. }
            | Self::Compact { span, .. }
            | Self::Ftrace { span, .. } => Some(*span),
            Self::Switch(_) | Self::Waking(_) | Self::PowerRail(_) | Self::Counter(_) => None,
        }
    }
}
