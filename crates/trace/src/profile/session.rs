//! The session of a profiler: its event, its counts and its losses.

use std::collections::{BTreeMap, HashMap};

use ferretto_format::perf_event::{PerfEvent, PerfEventKind};
use ferretto_format::sample::unit_name;
use ferretto_proto::fields::trace_packet_defaults;
use ferretto_proto::views::perf_events::{TimebaseView, counter};
use ferretto_proto::views::stack_sample::CounterDescriptorView;
use ferretto_proto::views::stack_sample::counter_descriptor::scope::SCOPE_CPU;
use ferretto_proto::views::{PerfSampleDefaultsView, StackSampleDefaultsView};
use ferretto_wire::Fields;

use super::unwind::SkipReason;
use crate::printable::printable;

/// The maximum number of CPUs whose counters are tracked.
const MAX_CPUS: usize = 1 << 12;
/// The maximum number of followers. Others are left out; the kernel's groups are smaller.
const MAX_FOLLOWERS: usize = 64;
/// The events of off-CPU profilers.
const SCHED_SWITCH: [&str; 2] = ["sched/sched_switch", "sched:sched_switch"];

/// The id of a session of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(super) u32);

/// The sampling interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interval {
    /// Unknown.
    #[default]
    Unknown,
    /// A number of samples per second.
    Frequency(u64),
    /// A number of events between two samples.
    Period(u64),
    /// A number of milliseconds between two reads of the counters, without callstacks.
    Poll(u64),
}

/// A counted event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The name, for example `cpu-clock`.
    pub name: String,
    /// The unit of its values, for example `ns`; empty if unknown.
    pub unit: String,
    /// True if each CPU has its own counter; values without a CPU are meaningless.
    pub is_per_cpu: bool,
}

/// A profiler that wrote samples: one packet sequence.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The sequence of its packets.
    pub sequence: u32,
    /// The name of its data source, for example `linux.perf`.
    pub source: String,
    /// The event that triggers samples.
    pub event: Event,
    /// The sampling interval.
    pub interval: Interval,
    /// The additional counters, in the order of their values.
    pub followers: Vec<Event>,
    /// The number of samples with a callstack.
    pub samples: u64,
    /// The number of samples with a callstack whose weight is unknown.
    pub unweighted: u64,
    /// The number of samples without a callstack that were not skipped, for example of processes
    /// that were excluded from unwinding.
    pub without_stack: u64,
    /// The number of skipped samples by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// The number of records that the kernel dropped because the ring was full.
    pub kernel_lost: u64,
    /// True if the profiler stopped because it exceeded its memory limit.
    pub is_stopped_by_guardrail: bool,
    /// The last counter values by CPU.
    counts: HashMap<u32, u64>,
}

impl Session {
    /// Returns true if its samples are off-CPU times.
    pub fn is_off_cpu(&self) -> bool {
        SCHED_SWITCH.contains(&self.event.name.as_str()) || self.event.name.contains("off-cpu")
    }

    /// Returns true for an aggregated profile: its samples have no process, and are not samples of
    /// a time.
    pub fn is_added_up(&self) -> bool {
        matches!(self.source.as_str(), "collapsed_stack" | "pprof")
    }

    /// Returns true if each sample stands for its weight: it is the amount since the last sample of
    /// the thread. Counters of CPUs are not, since their growth includes that of other threads.
    pub fn is_weighted(&self) -> bool {
        self.samples > 0 && self.unweighted == 0 && !self.event.is_per_cpu
    }

    /// Returns the event of a counter: 0 is that of the session, others are its followers.
    pub fn counted(&self, counter: u32) -> Option<&Event> {
        match counter {
            0 => Some(&self.event),
            follower => self.followers.get(follower as usize - 1),
        }
    }

    /// Creates a session from encoded defaults. `is_perf` is true for a writer of `PerfSample`s.
    pub(super) fn of_profiler(is_perf: bool, defaults: &[u8]) -> Self {
        let mut session = Self::default();
        session.source.push_str("linux.perf");
        if is_perf {
            session.event.name = "cpu-clock".to_owned();
            session.event.unit = "ns".to_owned();
        }
        session.set_defaults(defaults);
        session
    }

    /// Reads `TracePacketDefaults`.
    pub(super) fn set_defaults(&mut self, defaults: &[u8]) {
        for field in Fields::new(defaults).map_while(Result::ok) {
            let body = field.as_bytes().unwrap_or_default();
            match field.number {
                trace_packet_defaults::PERF_SAMPLE_DEFAULTS => self.set_perf_defaults(body),
                trace_packet_defaults::STACK_SAMPLE_DEFAULTS => self.set_stack_defaults(body),
                _ => {}
            }
        }
    }

    fn set_perf_defaults(&mut self, defaults: &[u8]) {
        let defaults = PerfSampleDefaultsView::read(defaults);
        if let Some(timebase) = defaults.timebase {
            let timebase = TimebaseView::read(timebase);
            self.event = perf_event(&PerfEvent::of_timebase(&timebase));
            self.interval = interval(&timebase);
        }
        let followers = defaults.followers.iter().take(MAX_FOLLOWERS);
        let followers = followers.map(|bytes| perf_event(&PerfEvent::of_follower(bytes)));
        self.followers = followers.collect();
    }

    fn set_stack_defaults(&mut self, defaults: &[u8]) {
        let defaults = StackSampleDefaultsView::read(defaults);
        if let Some(source) = defaults.source {
            self.source = printable(source);
        }
        if let Some(descriptor) = defaults.primary_descriptor {
            self.event = described(descriptor);
        }
        let followers = defaults.follower_descriptors.iter().take(MAX_FOLLOWERS);
        self.followers = followers.map(described).collect();
    }

    /// Returns the growth of a counter since the previous sample on this CPU.
    pub(super) fn count(&mut self, cpu: u32, count: u64) -> u64 {
        if self.counts.len() >= MAX_CPUS && !self.counts.contains_key(&cpu) {
            return 0;
        }
        let last = self.counts.entry(cpu).or_default();
        let since = count.saturating_sub(*last);
        *last = count.max(*last);
        since
    }
}

/// Returns an event of `PerfSampleDefaults`.
fn perf_event(declared: &PerfEvent<'_>) -> Event {
    // The default timebase, which may be omitted.
    let default = PerfEventKind::Counter(counter::SW_CPU_CLOCK);
    let kind = declared.kind.unwrap_or(default);
    let mut name = printable(declared.name);
    if name.is_empty() {
        name = printable(&kind.name());
        if !declared.modes.is_empty() {
            name = format!("{name}:{}", declared.modes);
        }
    }
    Event {
        name,
        unit: kind.unit().unwrap_or_default().to_owned(),
        is_per_cpu: true,
    }
}

fn interval(timebase: &TimebaseView<'_>) -> Interval {
    let frequency = timebase.frequency.map(Interval::Frequency);
    let period = timebase.period.map(Interval::Period);
    let poll = timebase.poll_period_ms.map(u64::from).map(Interval::Poll);
    frequency.or(period).or(poll).unwrap_or_default()
}

/// Reads a `CounterDescriptor` of the common format.
pub(super) fn described(bytes: &[u8]) -> Event {
    let descriptor = CounterDescriptorView::read(bytes);
    let unit = match descriptor.unit.and_then(unit_name) {
        Some(unit) => unit.to_owned(),
        None => printable(descriptor.unit_str.unwrap_or_default()),
    };
    Event {
        name: printable(descriptor.name.unwrap_or_default()),
        unit,
        is_per_cpu: descriptor.scope == Some(SCOPE_CPU),
    }
}
