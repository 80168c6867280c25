//! The first packet of a sequence, with the defaults of all others.

use ferretto_format::clock;
use ferretto_proto::fields::perf_sample_defaults as defaults_field;
use ferretto_proto::fields::stack_sample::counter_descriptor as descriptor_field;
use ferretto_proto::fields::stack_sample_defaults as stack_defaults_field;
use ferretto_proto::fields::{trace_packet, trace_packet_defaults};
use ferretto_proto::perf_events::{Counter, EventModifier, RawEvent, Timebase, Tracepoint};
use ferretto_proto::{FollowerEvent, Message, follower_event};
use ferretto_wire::{Encoder, encode};

use super::{Format, OFF_CPU, OFF_CPU_SOURCE};
use crate::config::{Clock, Event, EventKind, Interval, Mode, Modifiers, Plan, counter_name};
use crate::filter::Shard;
use crate::registration::LINUX_PERF;

/// The number of `UNIT_NANOSECONDS`.
const NANOSECONDS: u64 = 1;
/// The number of `UNIT_COUNT`.
const COUNT: u64 = 9;
/// The number of `SCOPE_GLOBAL`.
const GLOBAL: u64 = 1;
/// The number of `SCOPE_CPU`.
const PER_CPU: u64 = 2;

/// The defaults of a data source's packets.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    /// The id of the clock of samples.
    pub(super) clock: u32,
    /// The other fields of `TracePacketDefaults`, encoded.
    pub(super) encoded: Vec<u8>,
    pub(super) format: Format,
}

impl Defaults {
    pub(crate) fn new(plan: &Plan, shard: Option<Shard>, format: Format, is_off_cpu: bool) -> Self {
        let format = if is_off_cpu {
            Format::StackSample
        } else {
            format
        };
        let clock = plan.sampling().map_or(Clock::Boottime, |s| s.clock);
        let encoded = encode(|out| {
            out.nested(trace_packet_defaults::PERF_SAMPLE_DEFAULTS, |out| {
                perf_sample_defaults(out, plan, shard);
            });
            if format == Format::StackSample {
                out.nested(trace_packet_defaults::STACK_SAMPLE_DEFAULTS, |out| {
                    stack_sample_defaults(out, plan, is_off_cpu);
                });
            }
        });
        Self {
            clock: builtin(clock),
            encoded,
            format,
        }
    }
}

/// Returns the id of a clock in `BuiltinClock`.
fn builtin(clock: Clock) -> u32 {
    match clock {
        Clock::Realtime => clock::REALTIME,
        Clock::Monotonic => clock::MONOTONIC,
        Clock::MonotonicRaw => clock::MONOTONIC_RAW,
        Clock::Boottime => clock::BOOTTIME,
    }
}

fn perf_sample_defaults(out: &mut Encoder<'_, Vec<u8>>, plan: &Plan, shard: Option<Shard>) {
    out.bytes(defaults_field::TIMEBASE, &timebase(plan).encode_to_vec());
    for follower in &plan.followers {
        let follower = FollowerEvent {
            event: Some(match echo(follower) {
                Echo::Counter(counter) => follower_event::Event::Counter(counter),
                Echo::Tracepoint(one) => follower_event::Event::Tracepoint(Box::new(one)),
                Echo::Raw(raw) => follower_event::Event::RawEvent(Box::new(raw)),
            }),
            name: name(follower),
            modifiers: modifiers(follower.modifiers),
            ..Default::default()
        };
        out.bytes(defaults_field::FOLLOWERS, &follower.encode_to_vec());
    }
    if let Some(shard) = shard {
        out.varint(defaults_field::PROCESS_SHARD_COUNT, shard.count.into());
        out.varint(defaults_field::CHOSEN_PROCESS_SHARD, shard.chosen.into());
    }
}

fn timebase(plan: &Plan) -> Timebase {
    use ferretto_proto::perf_events::timebase::{Event, Interval as Wanted};
    let interval = match &plan.mode {
        Mode::Polling { period } => {
            Wanted::PollPeriodMs(u32::try_from(period.as_millis()).unwrap_or(u32::MAX))
        }
        Mode::Sampling(sampling) => match sampling.interval {
            Interval::Frequency(frequency) => Wanted::Frequency(frequency),
            Interval::Period(period) => Wanted::Period(period),
        },
    };
    Timebase {
        interval: Some(interval),
        event: Some(match echo(&plan.timebase) {
            Echo::Counter(counter) => Event::Counter(counter),
            Echo::Tracepoint(one) => Event::Tracepoint(Box::new(one)),
            Echo::Raw(raw) => Event::RawEvent(Box::new(raw)),
        }),
        name: name(&plan.timebase),
        modifiers: modifiers(plan.timebase.modifiers),
        ..Default::default()
    }
}

/// A resolved event, in the form of configs.
enum Echo {
    Counter(Counter),
    Tracepoint(Tracepoint),
    Raw(RawEvent),
}

fn echo(event: &Event) -> Echo {
    match &event.kind {
        EventKind::Counter(counter) => Echo::Counter(*counter),
        EventKind::Tracepoint { name, filter } => Echo::Tracepoint(Tracepoint {
            name: Some(name.clone()),
            filter: Some(filter.as_bytes().to_vec()),
            ..Default::default()
        }),
        EventKind::Raw => Echo::Raw(RawEvent {
            r#type: Some(event.r#type),
            config: Some(event.config),
            config1: Some(event.config1),
            config2: Some(event.config2),
            ..Default::default()
        }),
    }
}

fn name(event: &Event) -> Option<Vec<u8>> {
    (!event.name.is_empty()).then(|| event.name.clone())
}

/// Returns the modes that are counted, if one is excluded.
fn modifiers(modifiers: Modifiers) -> Vec<EventModifier> {
    let counted = [
        (
            modifiers.exclude_user,
            EventModifier::EVENT_MODIFIER_COUNT_USERSPACE,
        ),
        (
            modifiers.exclude_kernel,
            EventModifier::EVENT_MODIFIER_COUNT_KERNEL,
        ),
        (
            modifiers.exclude_hypervisor,
            EventModifier::EVENT_MODIFIER_COUNT_HYPERVISOR,
        ),
    ];
    if counted.iter().all(|(excluded, _)| !excluded) {
        return Vec::new();
    }
    let left = counted.into_iter().filter(|(excluded, _)| !excluded);
    left.map(|(_, modifier)| modifier).collect()
}

fn stack_sample_defaults(out: &mut Encoder<'_, Vec<u8>>, plan: &Plan, is_off_cpu: bool) {
    if is_off_cpu {
        out.string(stack_defaults_field::SOURCE, OFF_CPU_SOURCE);
        out.nested(stack_defaults_field::PRIMARY_DESCRIPTOR, |out| {
            descriptor(out, OFF_CPU.as_bytes(), NANOSECONDS, GLOBAL);
        });
        return;
    }
    out.string(stack_defaults_field::SOURCE, LINUX_PERF);
    let mut number = stack_defaults_field::PRIMARY_DESCRIPTOR;
    for event in plan.events() {
        out.nested(number, |out| {
            descriptor(out, &label(event), unit(event), PER_CPU);
        });
        number = stack_defaults_field::FOLLOWER_DESCRIPTORS;
    }
}

fn descriptor(out: &mut Encoder<'_, Vec<u8>>, name: &[u8], unit: u64, scope: u64) {
    out.bytes(descriptor_field::NAME, name);
    out.varint(descriptor_field::UNIT, unit);
    out.varint(descriptor_field::SCOPE, scope);
}

/// Returns upstream's name for the track of an event.
fn label(event: &Event) -> Vec<u8> {
    match &event.kind {
        _ if !event.name.is_empty() => event.name.clone(),
        EventKind::Counter(counter) => counter_name(*counter).into(),
        EventKind::Tracepoint { name, .. } => name.clone(),
        EventKind::Raw => format!(
            "raw.0x{:x}.0x{:x}.0x{:x}.0x{:x}",
            event.r#type, event.config, event.config1, event.config2
        )
        .into_bytes(),
    }
}

/// Returns the number of the event's unit in `StackSample.Unit`.
fn unit(event: &Event) -> u64 {
    match event.kind {
        EventKind::Counter(counter) => match counter {
            Counter::SW_CPU_CLOCK | Counter::SW_TASK_CLOCK => NANOSECONDS,
            Counter::HW_CPU_CYCLES | Counter::HW_REF_CPU_CYCLES | Counter::HW_BUS_CYCLES => 2,
            Counter::HW_INSTRUCTIONS => 3,
            Counter::SW_PAGE_FAULTS | Counter::SW_PAGE_FAULTS_MIN | Counter::SW_PAGE_FAULTS_MAJ => {
                5
            }
            Counter::HW_CACHE_MISSES => 6,
            Counter::HW_CACHE_REFERENCES => 7,
            Counter::HW_BRANCH_MISSES => 8,
            _ => COUNT,
        },
        EventKind::Tracepoint { .. } => COUNT,
        EventKind::Raw => 0,
    }
}

/// Starts a packet with the current time.
pub(super) fn timed_now(out: &mut Encoder<'_, Vec<u8>>, now_boottime: u64) {
    out.varint(trace_packet::TIMESTAMP, now_boottime);
    out.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME.into());
}
