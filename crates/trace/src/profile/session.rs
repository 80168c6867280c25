//! The session of a profiler: its event, its counts and its losses.

use std::collections::{BTreeMap, HashMap};

use ferretto_proto::fields::perf_events::{raw_event, timebase, tracepoint};
use ferretto_proto::fields::stack_sample::counter_descriptor;
use ferretto_proto::fields::{
    follower_event, perf_sample_defaults, stack_sample_defaults, trace_packet_defaults,
};
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
        self.followers.clear();
        for field in Fields::new(defaults).map_while(Result::ok) {
            let body = field.as_bytes().unwrap_or_default();
            match field.number {
                perf_sample_defaults::TIMEBASE => {
                    self.event = perf_event(body, &TIMEBASE_FIELDS);
                    self.interval = interval(body);
                }
                perf_sample_defaults::FOLLOWERS if self.followers.len() < MAX_FOLLOWERS => {
                    self.followers.push(perf_event(body, &FOLLOWER_FIELDS));
                }
                _ => {}
            }
        }
    }

    fn set_stack_defaults(&mut self, defaults: &[u8]) {
        self.followers.clear();
        for field in Fields::new(defaults).map_while(Result::ok) {
            let body = field.as_bytes().unwrap_or_default();
            match field.number {
                stack_sample_defaults::SOURCE => self.source = printable(body),
                stack_sample_defaults::PRIMARY_DESCRIPTOR => self.event = described(body),
                stack_sample_defaults::FOLLOWER_DESCRIPTORS
                    if self.followers.len() < MAX_FOLLOWERS =>
                {
                    self.followers.push(described(body));
                }
                _ => {}
            }
        }
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

/// The field numbers of an event's parts: name, counter, tracepoint, raw event, modifiers.
struct EventFields {
    name: u32,
    counter: u32,
    tracepoint: u32,
    raw: u32,
    modifiers: u32,
}

const TIMEBASE_FIELDS: EventFields = EventFields {
    name: timebase::NAME,
    counter: timebase::COUNTER,
    tracepoint: timebase::TRACEPOINT,
    raw: timebase::RAW_EVENT,
    modifiers: timebase::MODIFIERS,
};

const FOLLOWER_FIELDS: EventFields = EventFields {
    name: follower_event::NAME,
    counter: follower_event::COUNTER,
    tracepoint: follower_event::TRACEPOINT,
    raw: follower_event::RAW_EVENT,
    modifiers: follower_event::MODIFIERS,
};

/// The numbers, names and units of counters in the schema.
const COUNTERS: [(u64, &str, &str); 20] = [
    (1, "cpu-clock", "ns"),
    (2, "page-faults", "count"),
    (3, "task-clock", "ns"),
    (4, "context-switches", "count"),
    (5, "cpu-migrations", "count"),
    (6, "minor-faults", "count"),
    (7, "major-faults", "count"),
    (8, "alignment-faults", "count"),
    (9, "emulation-faults", "count"),
    (10, "cpu-cycles", "cycles"),
    (11, "instructions", "instructions"),
    (12, "cache-references", "count"),
    (13, "cache-misses", "count"),
    (14, "branch-instructions", "count"),
    (15, "branch-misses", "count"),
    (16, "bus-cycles", "cycles"),
    (17, "stalled-cycles-frontend", "count"),
    (18, "stalled-cycles-backend", "count"),
    (19, "ref-cycles", "cycles"),
    (20, "dummy", "count"),
];

fn perf_event(bytes: &[u8], at: &EventFields) -> Event {
    // The default timebase, which may be omitted.
    let mut event = counter(1);
    let mut name = String::new();
    let mut letters = String::new();
    for field in Fields::new(bytes).map_while(Result::ok) {
        let body = field.as_bytes().unwrap_or_default();
        match field.number {
            number if number == at.name => name = printable(body),
            number if number == at.counter => event = counter(field.as_u64().unwrap_or(0)),
            number if number == at.tracepoint => {
                let name = Fields::find(tracepoint::NAME, body).and_then(|name| name.as_bytes());
                event = Event {
                    name: printable(name.unwrap_or_default()),
                    unit: "count".to_owned(),
                    is_per_cpu: true,
                };
            }
            number if number == at.raw => event = raw(body),
            number if number == at.modifiers => {
                let letter = |number| match number {
                    1 => Some('u'),
                    2 => Some('k'),
                    3 => Some('h'),
                    _ => None,
                };
                letters.extend(field.as_varints().filter_map(letter).take(3));
            }
            _ => {}
        }
    }
    if !name.is_empty() {
        event.name = name;
    } else if !letters.is_empty() {
        event.name = format!("{}:{letters}", event.name);
    }
    event
}

fn counter(number: u64) -> Event {
    let known = COUNTERS.iter().find(|(known, ..)| *known == number);
    let (name, unit) = known.map_or(("unknown", ""), |(_, name, unit)| (name, unit));
    Event {
        name: name.to_owned(),
        unit: unit.to_owned(),
        is_per_cpu: true,
    }
}

fn raw(bytes: &[u8]) -> Event {
    let number = |field| {
        Fields::find(field, bytes)
            .and_then(|n| n.as_u64())
            .unwrap_or(0)
    };
    let (kind, config) = (number(raw_event::TYPE), number(raw_event::CONFIG));
    let (config1, config2) = (number(raw_event::CONFIG1), number(raw_event::CONFIG2));
    Event {
        name: format!("raw.0x{kind:x}.0x{config:x}.0x{config1:x}.0x{config2:x}"),
        unit: String::new(),
        is_per_cpu: true,
    }
}

fn interval(bytes: &[u8]) -> Interval {
    let mut interval = Interval::Unknown;
    for field in Fields::new(bytes).map_while(Result::ok) {
        let value = field.as_u64().unwrap_or(0);
        match field.number {
            timebase::FREQUENCY => interval = Interval::Frequency(value),
            timebase::PERIOD => interval = Interval::Period(value),
            timebase::POLL_PERIOD_MS => interval = Interval::Poll(value),
            _ => {}
        }
    }
    interval
}

/// `StackSample.CounterDescriptor.Scope`.
const SCOPE_CPU: u64 = 2;

/// Reads a `CounterDescriptor` of the common format.
pub(super) fn described(bytes: &[u8]) -> Event {
    const UNITS: [&str; 10] = [
        "",
        "ns",
        "cycles",
        "instructions",
        "bytes",
        "page-faults",
        "cache-misses",
        "cache-references",
        "branch-misses",
        "count",
    ];
    let mut event = Event::default();
    let mut text = String::new();
    for field in Fields::new(bytes).map_while(Result::ok) {
        match field.number {
            counter_descriptor::NAME => {
                event.name = printable(field.as_bytes().unwrap_or_default());
            }
            counter_descriptor::UNIT => {
                let unit = field.as_u64().and_then(|unit| usize::try_from(unit).ok());
                let unit = unit.and_then(|unit| UNITS.get(unit)).copied();
                event.unit = unit.unwrap_or_default().to_owned();
            }
            counter_descriptor::UNIT_STR => {
                text = printable(field.as_bytes().unwrap_or_default());
            }
            counter_descriptor::SCOPE => event.is_per_cpu = field.as_u64() == Some(SCOPE_CPU),
            _ => {}
        }
    }
    if event.unit.is_empty() {
        event.unit = text;
    }
    event
}
