//! Nodes: the tree of rows of the page.

mod build;
mod command;
mod order;

use ferretto_tables::{StringId, StringPool};

pub(crate) use self::build::{MachineRows, build};

/// The value for no node and for no row.
pub(crate) const NONE: u32 = u32::MAX;

/// The kind of a node. The numbers are part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    Machine = 1,
    Process = 2,
    Thread = 3,
    Group = 4,
    Slices = 5,
    Counter = 6,
    Cpu = 7,
    States = 8,
    Values = 9,
    Samples = 10,
    Log = 11,
    Heap = 12,
}

/// The name of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    /// A text of the trace.
    Pool(StringId),
    /// A generated text.
    Text(Box<str>),
}

impl Name {
    pub(crate) fn text<'a>(&'a self, strings: &'a StringPool) -> &'a str {
        match self {
            Self::Pool(id) => strings.text(*id),
            Self::Text(text) => text,
        }
    }
}

/// The events of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    None,
    /// Tracks of slices, in the order of depth.
    Slices(Vec<u32>),
    /// `track.id`
    Counter(u32),
    /// `cpu.id`
    Cpu(u32),
    /// CPU slices of all threads: `process.id`.
    Activity(u32),
    /// `thread.id`
    States(u32),
    /// `track.id`
    Values(u32),
    /// `thread.id`
    Samples(u32),
    /// Kernel events of a CPU: `cpu.id`.
    Ftrace(u32),
    /// Lines of logs of a machine.
    Lines,
    /// `process.id`
    Heap(u32),
}

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// The index of the first node that is not a descendant.
    pub(crate) behind: u32,
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    /// The number of the process, thread or CPU.
    pub(crate) number: Option<i64>,
    pub(crate) content: Content,
    pub(crate) unit: StringId,
    /// The first lane, or the counter.
    pub(crate) lane: u32,
    /// The number of lanes.
    pub(crate) depth: u16,
    pub(crate) rows: u32,
    /// True if the trace was recorded for such nodes, as disks and heaps, which then come first.
    pub(crate) is_subject: bool,
}

impl Node {
    /// Returns the unit of a counter. Traces of others lack it for the memory of processes.
    pub(crate) fn unit<'a>(&self, strings: &'a StringPool) -> &'a str {
        const MEMORY: [&str; 5] = ["locked", "rss", "smaps", "swap", "virt"];
        let name = self.name.text(strings).strip_prefix("mem.");
        let is_memory = |name: &str| MEMORY.iter().any(|memory| name.starts_with(memory));
        match strings.text(self.unit) {
            "" if self.kind == Kind::Counter && name.is_some_and(is_memory) => "bytes",
            unit => unit,
        }
    }
}
