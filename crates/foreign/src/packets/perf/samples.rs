//! Packets of samples. Each event has a sequence of its own, whose defaults name the event. The
//! weight of a sample is its period: the amount that it stands for.

use ferretto_format::CpuMode;
use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_profiling::Interner;
use ferretto_proto::fields::perf_events::timebase;
use ferretto_proto::fields::stack_sample::{counter_descriptor, execution_context, task_context};
use ferretto_proto::fields::{
    perf_sample, perf_sample_defaults, stack_sample, stack_sample_defaults, trace_packet,
    trace_packet_defaults,
};

use crate::packets::ImportError;
use crate::packets::writer::{FIRST_SEQUENCE, Writer};

/// The sampled event.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventSpec {
    pub(crate) name: String,
    /// The unit of its counter.
    pub(crate) unit: Unit,
    /// Further counters, with their units.
    pub(crate) followers: Vec<(String, Unit)>,
    pub(crate) period: Option<u64>,
    pub(crate) frequency: Option<u64>,
}

/// A sample without its callstack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) ts: u64,
    pub(crate) cpu: Option<u32>,
    /// The process, if it is known.
    pub(crate) pid: Option<u32>,
    pub(crate) tid: u32,
    pub(crate) mode: CpuMode,
    /// The number of events since the last sample of the thread, if it is known.
    pub(crate) period: Option<u64>,
    /// The values of the event's followers.
    pub(crate) followers: &'a [u64],
}

/// The unit of a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    #[default]
    Count,
    Nanoseconds,
    Cycles,
    Instructions,
}

impl Unit {
    /// Returns the unit of an event of `perf` by its name, such as `cpu-clock:u` or `cpu/cycles/`.
    pub(crate) fn of_event(name: &str) -> Self {
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        let name = name.strip_suffix('/').unwrap_or(name);
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        match name {
            "cpu-clock" | "task-clock" => Self::Nanoseconds,
            "cycles" | "cpu-cycles" | "ref-cycles" | "bus-cycles" => Self::Cycles,
            "instructions" => Self::Instructions,
            _ => Self::Count,
        }
    }

    /// Returns its number in `CounterDescriptor.Unit`.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Cycles => 2,
            Self::Instructions => 3,
            Self::Count => 9,
        }
    }
}

/// Writes the samples of all events.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    events: Vec<Sequence>,
}

#[derive(Debug, Default)]
struct Sequence {
    spec: EventSpec,
    interner: Interner,
    has_begun: bool,
}

impl Samples {
    /// Adds an event, and returns its index.
    pub(crate) fn add_event(&mut self, spec: EventSpec) -> usize {
        self.events.push(Sequence {
            spec,
            ..Sequence::default()
        });
        self.events.len() - 1
    }

    /// Writes a sample of an event. `stack` returns the iids of its frames, the innermost first.
    pub(crate) fn write(
        &mut self,
        writer: &mut Writer<'_>,
        event: usize,
        head: Head<'_>,
        stack: impl FnOnce(&mut Interner) -> Vec<u32>,
    ) -> Result<(), ImportError> {
        let Some(sequence) = self.events.get_mut(event) else {
            return Ok(());
        };
        let number = FIRST_SEQUENCE + 1 + event as u32;
        if !sequence.has_begun || sequence.interner.is_full() {
            sequence.has_begun = true;
            sequence.interner.clear();
            begin(writer, number, &sequence.spec, head.ts)?;
        }
        let frames = stack(&mut sequence.interner);
        let callstack = if frames.is_empty() {
            None
        } else {
            Some(sequence.interner.callstack(&frames))
        };
        let interner = &mut sequence.interner;
        writer.packet(number, |packet| {
            packet.varint(trace_packet::TIMESTAMP, head.ts);
            packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
            interner.new_entries().write_to(packet);
            packet.nested(trace_packet::STACK_SAMPLE, |out| {
                out.nested(stack_sample::TASK_CONTEXT, |out| {
                    if let Some(pid) = head.pid {
                        out.varint(task_context::PID, pid.into());
                    }
                    out.varint(task_context::TID, head.tid.into());
                });
                out.nested(stack_sample::EXECUTION_CONTEXT, |out| {
                    if let Some(cpu) = head.cpu {
                        out.varint(execution_context::CPU, cpu.into());
                    }
                    out.varint(execution_context::MODE, head.mode.in_stack_sample());
                });
                if let Some(callstack) = callstack {
                    out.varint(stack_sample::CALLSTACK_IID, callstack);
                }
                if let Some(period) = head.period {
                    out.varint(stack_sample::PRIMARY_WEIGHT, period);
                }
                for value in head.followers {
                    out.varint(stack_sample::FOLLOWER_WEIGHTS, *value);
                }
            });
        })
    }

    /// Writes that the kernel lost `count` records.
    pub(crate) fn lost(
        &mut self,
        writer: &mut Writer<'_>,
        ts: u64,
        count: u64,
    ) -> Result<(), ImportError> {
        let number = FIRST_SEQUENCE + 1;
        let Some(sequence) = self.events.first_mut() else {
            return Ok(());
        };
        if !std::mem::replace(&mut sequence.has_begun, true) {
            begin(writer, number, &sequence.spec, ts)?;
        }
        writer.packet(number, |packet| {
            packet.varint(trace_packet::TIMESTAMP, ts);
            packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
            packet.nested(trace_packet::PERF_SAMPLE, |out| {
                out.varint(perf_sample::CPU, 0);
                out.varint(perf_sample::KERNEL_RECORDS_LOST, count);
            });
        })
    }
}

/// Writes the first packet of a sequence, with its defaults.
fn begin(
    writer: &mut Writer<'_>,
    number: u32,
    spec: &EventSpec,
    ts: u64,
) -> Result<(), ImportError> {
    writer.packet(number, |packet| {
        packet.varint(trace_packet::TIMESTAMP, ts);
        packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |defaults| {
            defaults.nested(trace_packet_defaults::PERF_SAMPLE_DEFAULTS, |defaults| {
                defaults.nested(perf_sample_defaults::TIMEBASE, |out| {
                    if let Some(frequency) = spec.frequency {
                        out.varint(timebase::FREQUENCY, frequency);
                    }
                    if let Some(period) = spec.period {
                        out.varint(timebase::PERIOD, period);
                    }
                    out.string(timebase::NAME, &spec.name);
                });
            });
            defaults.nested(trace_packet_defaults::STACK_SAMPLE_DEFAULTS, |defaults| {
                defaults.string(stack_sample_defaults::SOURCE, "linux.perf");
                let mut number = stack_sample_defaults::PRIMARY_DESCRIPTOR;
                let primary = (&spec.name, spec.unit);
                let followers = spec.followers.iter().map(|(name, unit)| (name, *unit));
                for (name, unit) in std::iter::once(primary).chain(followers) {
                    defaults.nested(number, |out| {
                        out.string(counter_descriptor::NAME, name);
                        out.varint(counter_descriptor::UNIT, unit.number());
                    });
                    number = stack_sample_defaults::FOLLOWER_DESCRIPTORS;
                }
            });
        });
    })
}
