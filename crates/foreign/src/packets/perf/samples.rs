//! Packets of samples. Each event has a sequence of its own, whose defaults name the event.

use ferretto_format::CpuMode;
use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_profiling::Interner;
use ferretto_proto::fields::perf_events::timebase;
use ferretto_proto::fields::{
    perf_sample, perf_sample_defaults, trace_packet, trace_packet_defaults,
};
use rustc_hash::FxHashMap;

use crate::packets::ImportError;
use crate::packets::writer::{FIRST_SEQUENCE, Writer};

/// The sampled event.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventSpec {
    pub(crate) name: String,
    pub(crate) period: Option<u64>,
    pub(crate) frequency: Option<u64>,
}

/// A sample without its callstack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) ts: u64,
    pub(crate) cpu: Option<u32>,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) mode: CpuMode,
    /// The number of events since the last sample.
    pub(crate) period: u64,
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
    /// The number of events so far, by CPU.
    counts: FxHashMap<Option<u32>, u64>,
}

impl Samples {
    /// Returns true if there are no events.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

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
        head: Head,
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
        let callstack = match frames.is_empty() {
            true => None,
            false => Some(sequence.interner.callstack(&frames)),
        };
        let count = sequence.counts.entry(head.cpu).or_default();
        *count = count.saturating_add(head.period);
        let count = *count;
        let interner = &mut sequence.interner;
        writer.packet(number, |packet| {
            packet.varint(trace_packet::TIMESTAMP, head.ts);
            packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
            interner.new_entries().write_to(packet);
            packet.nested(trace_packet::PERF_SAMPLE, |out| {
                out.varint(perf_sample::CPU, head.cpu.unwrap_or(0).into());
                out.varint(perf_sample::PID, head.pid.into());
                out.varint(perf_sample::TID, head.tid.into());
                out.varint(perf_sample::CPU_MODE, head.mode.in_perf_sample());
                out.varint(perf_sample::TIMEBASE_COUNT, count);
                if let Some(callstack) = callstack {
                    out.varint(perf_sample::CALLSTACK_IID, callstack);
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
        });
    })
}
