//! The events that a callstack profiler counts, as `PerfSampleDefaults` declares them.

use std::borrow::Cow;

use ferretto_proto::views::FollowerEventView;
use ferretto_proto::views::perf_events::{
    RawEventView, TimebaseView, TracepointView, counter, event_modifier,
};

/// An event.
#[derive(Debug, Clone, Default)]
pub struct PerfEvent<'a> {
    /// The name that its config gives to it; empty if none.
    pub name: &'a [u8],
    /// The event itself; `None` if it is not declared.
    pub kind: Option<PerfEventKind<'a>>,
    /// The letters of the modes in which it counts, as those of the tool `perf`; empty for all
    /// modes.
    pub modes: String,
}

/// An event without its modes.
#[derive(Debug, Clone, Copy)]
pub enum PerfEventKind<'a> {
    /// A value of `PerfEvents.Counter`.
    Counter(i32),
    /// The group and name of a tracepoint.
    Tracepoint(&'a [u8]),
    /// An event as the kernel takes it.
    Raw(RawEventView<'a>),
}

impl<'a> PerfEvent<'a> {
    /// Reads the event that triggers samples.
    pub fn of_timebase(view: &TimebaseView<'a>) -> Self {
        Self {
            name: view.name.unwrap_or_default(),
            kind: PerfEventKind::of(view.counter, view.tracepoint, view.raw_event),
            modes: letters(view.modifiers.iter()),
        }
    }

    /// Reads an event that is counted along with it.
    pub fn of_follower(bytes: &'a [u8]) -> Self {
        let view = FollowerEventView::read(bytes);
        Self {
            name: view.name.unwrap_or_default(),
            kind: PerfEventKind::of(view.counter, view.tracepoint, view.raw_event),
            modes: letters(view.modifiers.iter()),
        }
    }
}

impl<'a> PerfEventKind<'a> {
    fn of(
        counter: Option<i32>,
        tracepoint: Option<&'a [u8]>,
        raw: Option<&'a [u8]>,
    ) -> Option<Self> {
        let tracepoint = tracepoint.map(|bytes| TracepointView::read(bytes).name);
        counter
            .map(Self::Counter)
            .or(tracepoint.map(|name| Self::Tracepoint(name.unwrap_or_default())))
            .or(raw.map(|bytes| Self::Raw(RawEventView::read(bytes))))
    }

    /// Returns its name in viewers of traces.
    pub fn name(&self) -> Cow<'a, [u8]> {
        match self {
            Self::Counter(counter) => Cow::Borrowed(counter_name(*counter).as_bytes()),
            Self::Tracepoint(name) => Cow::Borrowed(name),
            Self::Raw(raw) => {
                let kind = raw.r#type.unwrap_or(0);
                let [config, config1, config2] =
                    [raw.config, raw.config1, raw.config2].map(|number| number.unwrap_or(0));
                let name = format!("raw.{kind:#x}.{config:#x}.{config1:#x}.{config2:#x}");
                Cow::Owned(name.into_bytes())
            }
        }
    }

    /// Returns the unit of its values; `None` if it is unknown.
    pub fn unit(&self) -> Option<&'static str> {
        match self {
            Self::Counter(counter::SW_CPU_CLOCK | counter::SW_TASK_CLOCK) => Some("ns"),
            Self::Counter(
                counter::HW_CPU_CYCLES | counter::HW_BUS_CYCLES | counter::HW_REF_CPU_CYCLES,
            ) => Some("cycles"),
            Self::Counter(counter::HW_INSTRUCTIONS) => Some("instructions"),
            Self::Counter(_) | Self::Tracepoint(_) => Some("count"),
            Self::Raw(_) => None,
        }
    }
}

/// Returns the name of a `PerfEvents.Counter` in the tool `perf`.
pub fn counter_name(counter: i32) -> &'static str {
    match counter {
        counter::SW_CPU_CLOCK => "cpu-clock",
        counter::SW_PAGE_FAULTS => "page-faults",
        counter::SW_TASK_CLOCK => "task-clock",
        counter::SW_CONTEXT_SWITCHES => "context-switches",
        counter::SW_CPU_MIGRATIONS => "cpu-migrations",
        counter::SW_PAGE_FAULTS_MIN => "minor-faults",
        counter::SW_PAGE_FAULTS_MAJ => "major-faults",
        counter::SW_ALIGNMENT_FAULTS => "alignment-faults",
        counter::SW_EMULATION_FAULTS => "emulation-faults",
        counter::SW_DUMMY => "dummy",
        counter::HW_CPU_CYCLES => "cpu-cycles",
        counter::HW_INSTRUCTIONS => "instructions",
        counter::HW_CACHE_REFERENCES => "cache-references",
        counter::HW_CACHE_MISSES => "cache-misses",
        counter::HW_BRANCH_INSTRUCTIONS => "branch-instructions",
        counter::HW_BRANCH_MISSES => "branch-misses",
        counter::HW_BUS_CYCLES => "bus-cycles",
        counter::HW_STALLED_CYCLES_FRONTEND => "stalled-cycles-frontend",
        counter::HW_STALLED_CYCLES_BACKEND => "stalled-cycles-backend",
        counter::HW_REF_CPU_CYCLES => "ref-cycles",
        _ => "unknown",
    }
}

/// Returns the letters of modes. Longer lists than there are modes are cut.
fn letters(modes: impl Iterator<Item = i32>) -> String {
    modes
        .take(8)
        .filter_map(|mode| match mode {
            event_modifier::EVENT_MODIFIER_COUNT_USERSPACE => Some('u'),
            event_modifier::EVENT_MODIFIER_COUNT_KERNEL => Some('k'),
            event_modifier::EVENT_MODIFIER_COUNT_HYPERVISOR => Some('h'),
            _ => None,
        })
        .collect()
}
