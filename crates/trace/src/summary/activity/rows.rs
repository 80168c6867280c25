//! The sums of work by kind and name, and the rows of the summary made of them.

use std::collections::BTreeMap;

use ferretto_format::disk::RequestEvents;

use crate::limits::entry_bytes;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ActivityKind {
    /// System calls, by name.
    SystemCall,
    /// Interrupts, by the name of their handler.
    Interrupt,
    /// Soft interrupts, by name.
    SoftInterrupt,
    /// Disk requests, from their issue to their completion, by device and direction.
    DiskRequest,
    /// Network packets, by device and direction.
    NetworkPacket,
    /// Other network events.
    Network,
    /// Memory reclaim and compaction.
    Memory,
    /// Work queues of the kernel.
    Work,
    /// Calls of, or returns from, functions of programs and the kernel, by probe.
    Probe,
}

/// The summary of work of one kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivitySummary {
    /// The kind of work.
    pub kind: ActivityKind,
    /// The name of the activity.
    pub name: String,
    /// The number of begin events.
    pub count: u64,
    /// The number of those whose end event is in the trace.
    pub finished: u64,
    /// The number of those that failed; 0 for all but system calls.
    pub errors: u64,
    /// The total duration, in nanoseconds.
    pub total_ns: u64,
    /// The longest duration, in nanoseconds.
    pub max_ns: u64,
    /// The number of transferred bytes; 0 if unknown.
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) finished: u64,
    pub(super) errors: u64,
    pub(super) total_ns: u64,
    pub(super) max_ns: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    SystemCall(Call),
    /// The disk and the direction of a request.
    Request(RequestEvents, String),
    Text(String),
}

/// The key of the system calls of a thread with one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) machine: u32,
    pub(super) thread: u64,
    pub(super) number: u64,
    /// True after the thread has executed a program. The recorder itself calls before that, in the
    /// process of the command.
    pub(super) has_executed: bool,
}

impl Name {
    /// Returns the memory of the name and its sum.
    pub(super) fn bytes(&self) -> usize {
        let text = match self {
            Self::SystemCall(_) => 0,
            Self::Request(_, text) | Self::Text(text) => text.len(),
        };
        entry_bytes::<((ActivityKind, Self), u32)>() + size_of::<Sum>() + text
    }
}

/// Returns the rows by kind, in descending order of total duration.
pub(super) fn rows(sums: BTreeMap<(ActivityKind, String), Sum>) -> Vec<ActivitySummary> {
    let row = |((kind, name), sum): ((ActivityKind, String), Sum)| ActivitySummary {
        kind,
        name,
        count: sum.count,
        finished: sum.finished,
        errors: sum.errors,
        total_ns: sum.total_ns,
        max_ns: sum.max_ns,
        bytes: sum.bytes,
    };
    let mut rows: Vec<ActivitySummary> = sums.into_iter().map(row).collect();
    let rank = |row: &ActivitySummary| (row.total_ns, row.bytes, row.count);
    rows.sort_by(|a, b| a.kind.cmp(&b.kind).then(rank(b).cmp(&rank(a))));
    rows
}

impl Sum {
    pub(super) fn add_time(&mut self, ns: u64) {
        self.finished = self.finished.saturating_add(1);
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.finished = self.finished.saturating_add(other.finished);
        self.errors = self.errors.saturating_add(other.errors);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}
