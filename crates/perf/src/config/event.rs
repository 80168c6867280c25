//! Events that the kernel counts.

use std::ffi::CString;

use ferretto_proto::perf_events::{Counter, EventModifier};

/// An event for the kernel to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The name in the config, possibly empty. Bytes, as it is only passed on.
    pub name: Vec<u8>,
    /// The kind of event that the config asked for.
    pub kind: EventKind,
    /// The CPU modes in which the event is counted.
    pub modifiers: Modifiers,
    /// The type of the event (`perf_event_attr.type`).
    pub r#type: u32,
    /// The config of the event (`perf_event_attr.config`).
    pub config: u64,
    /// The second word of the config (`perf_event_attr.config1`).
    pub config1: u64,
    /// The third word of the config (`perf_event_attr.config2`).
    pub config2: u64,
    /// The CPUs on which the PMU counts, for the whole machine or for its kind of core; any CPU if
    /// `None`.
    pub cpus: Option<Vec<u32>>,
}

/// The event that the config asked for, as the trace describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A counter of the enumeration.
    Counter(Counter),
    /// A static tracepoint of the kernel.
    Tracepoint {
        /// The name as written in the config.
        name: Vec<u8>,
        /// The kernel's filter expression; empty if none.
        filter: CString,
    },
    /// A raw event.
    Raw,
}

/// The CPU modes in which an event is counted. By default none is excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// Set if user space is excluded.
    pub exclude_user: bool,
    /// Set if the kernel is excluded.
    pub exclude_kernel: bool,
    /// Set if hypervisors are excluded.
    pub exclude_hypervisor: bool,
}

impl Modifiers {
    /// Counts only in the given modes, or everywhere if there are none.
    pub(super) fn new(modifiers: &[EventModifier]) -> Self {
        let counts = |modifier| modifiers.contains(&modifier);
        let user = counts(EventModifier::EVENT_MODIFIER_COUNT_USERSPACE);
        let kernel = counts(EventModifier::EVENT_MODIFIER_COUNT_KERNEL);
        let hypervisor = counts(EventModifier::EVENT_MODIFIER_COUNT_HYPERVISOR);
        if !(user || kernel || hypervisor) {
            return Self::default();
        }
        Self {
            exclude_user: !user,
            exclude_kernel: !kernel,
            exclude_hypervisor: !hypervisor,
        }
    }
}

impl Event {
    /// The kernel's `PERF_TYPE_HARDWARE`.
    pub(crate) const HARDWARE: u32 = 0;
    /// The kernel's `PERF_TYPE_SOFTWARE`.
    pub(crate) const SOFTWARE: u32 = 1;
    /// The kernel's `PERF_TYPE_TRACEPOINT`.
    pub(crate) const TRACEPOINT: u32 = 2;

    /// Creates a software or hardware counter; `None` for `UNKNOWN_COUNTER`.
    pub(super) fn counter(counter: Counter) -> Option<Self> {
        let (r#type, config) = encoding(counter)?;
        Some(Self {
            name: Vec::new(),
            kind: EventKind::Counter(counter),
            modifiers: Modifiers::default(),
            r#type,
            config,
            config1: 0,
            config2: 0,
            cpus: None,
        })
    }

    /// Returns the kernel's filter expression, if there is one.
    pub fn filter(&self) -> Option<&CString> {
        match &self.kind {
            EventKind::Tracepoint { filter, .. } if !filter.is_empty() => Some(filter),
            _ => None,
        }
    }

    /// Returns a description of the event for messages, in the user's terms.
    pub fn describe(&self) -> String {
        match &self.kind {
            EventKind::Counter(counter) => format!("counter {}", counter_name(*counter)),
            EventKind::Tracepoint { name, .. } => {
                format!("tracepoint {}", String::from_utf8_lossy(name))
            }
            EventKind::Raw => format!(
                "raw event of type {} config {:#x}",
                self.r#type, self.config
            ),
        }
    }

    /// Returns true if the CPU must count the event: `PERF_TYPE_HARDWARE`, `PERF_TYPE_HW_CACHE` or
    /// `PERF_TYPE_RAW`.
    pub(crate) fn needs_hardware(&self) -> bool {
        matches!(self.r#type, Self::HARDWARE | 3 | 4)
    }

    /// Returns true if the event counts nanoseconds.
    pub(crate) fn counts_nanoseconds(&self) -> bool {
        self.r#type == Self::SOFTWARE && self.config <= 1
    }
}

/// Returns the name of a counter in trace viewers and `perf`.
pub(crate) fn counter_name(counter: Counter) -> &'static str {
    ferretto_format::perf_event::counter_name(counter as i32)
}

/// Returns type and config as in the kernel's `perf_hw_id` and `perf_sw_ids`, which differ from the
/// schema's numbers.
fn encoding(counter: Counter) -> Option<(u32, u64)> {
    let software = |config| Some((Event::SOFTWARE, config));
    let hardware = |config| Some((Event::HARDWARE, config));
    match counter {
        Counter::UNKNOWN_COUNTER => None,
        Counter::SW_CPU_CLOCK => software(0),
        Counter::SW_TASK_CLOCK => software(1),
        Counter::SW_PAGE_FAULTS => software(2),
        Counter::SW_CONTEXT_SWITCHES => software(3),
        Counter::SW_CPU_MIGRATIONS => software(4),
        Counter::SW_PAGE_FAULTS_MIN => software(5),
        Counter::SW_PAGE_FAULTS_MAJ => software(6),
        Counter::SW_ALIGNMENT_FAULTS => software(7),
        Counter::SW_EMULATION_FAULTS => software(8),
        Counter::SW_DUMMY => software(9),
        Counter::HW_CPU_CYCLES => hardware(0),
        Counter::HW_INSTRUCTIONS => hardware(1),
        Counter::HW_CACHE_REFERENCES => hardware(2),
        Counter::HW_CACHE_MISSES => hardware(3),
        Counter::HW_BRANCH_INSTRUCTIONS => hardware(4),
        Counter::HW_BRANCH_MISSES => hardware(5),
        Counter::HW_BUS_CYCLES => hardware(6),
        Counter::HW_STALLED_CYCLES_FRONTEND => hardware(7),
        Counter::HW_STALLED_CYCLES_BACKEND => hardware(8),
        Counter::HW_REF_CPU_CYCLES => hardware(9),
    }
}
