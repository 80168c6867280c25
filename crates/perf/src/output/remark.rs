//! Remarks of a data source in the trace, which explain to readers why data is missing.
//!
//! The schema has no messages of profilers, so remarks are instants on a track with the data
//! source's name, in a category that `ferretto summary` looks for.

use ferretto_client::PacketSink;
use ferretto_format::clock::BOOTTIME;
use ferretto_format::{SequenceClocks, SequenceWriter, Start};
use ferretto_proto::fields::perf_sample as sample;
use ferretto_proto::fields::{trace_packet, track_descriptor, track_event};
use ferretto_shm::{Clock, TraceWriter};
use ferretto_wire::{Encoder, encode};

use crate::registration::LINUX_PERF;

/// The category of remarks.
const CATEGORY: &str = "ferretto.remark";
/// The uuid of the track; an arbitrary number.
const TRACK: u64 = 0x6c69_6e75_782e_7066;
/// The number of `TYPE_INSTANT`.
const INSTANT: u64 = 3;
/// The number of `PROFILER_STOP_UNKNOWN`, for all reasons except the memory limit.
const STOPPED: u64 = 0;

/// Writes a remark into a running sequence.
pub(super) fn write(sink: &mut impl PacketSink, sequence: &mut SequenceWriter, text: &str) {
    let now = Clock::Boottime.now();
    let track = encode(|out| {
        sequence.begin_packet(out, BOOTTIME, now);
        describe(out);
    });
    sink.write_packet(&track);
    write_instant(sink, sequence, now, text);
}

/// Writes the whole sequence of a data source that has not started.
pub(super) fn not_started(mut writer: TraceWriter, reason: &str) {
    let now = Clock::Boottime.now();
    let clocks = SequenceClocks::new(1, false, BOOTTIME);
    let mut sequence = SequenceWriter::new(clocks, writer.drop_count());
    let track = encode(|out| {
        let counts = (writer.drop_count(), writer.written());
        sequence.restart(out, counts, Start::at(now), |_| {});
        describe(out);
    });
    writer.write_packet(&track);
    let text = format!("not started: {reason}");
    write_instant(&mut writer, &mut sequence, now, &text);
    let stopped = encode(|out| {
        sequence.begin_packet(out, BOOTTIME, now);
        out.nested(trace_packet::PERF_SAMPLE, |out| {
            out.nested(sample::PRODUCER_EVENT, |out| {
                out.varint(sample::producer_event::SOURCE_STOP_REASON, STOPPED);
            });
        });
    });
    writer.write_packet(&stopped);
    writer.flush(None);
}

/// Appends the track descriptor.
fn describe(packet: &mut Encoder<'_, Vec<u8>>) {
    packet.nested(trace_packet::TRACK_DESCRIPTOR, |out| {
        out.varint(track_descriptor::UUID, TRACK);
        out.string(track_descriptor::NAME, LINUX_PERF);
    });
}

fn write_instant(sink: &mut impl PacketSink, sequence: &mut SequenceWriter, now: u64, text: &str) {
    let instant = encode(|out| {
        sequence.begin_packet(out, BOOTTIME, now);
        out.nested(trace_packet::TRACK_EVENT, |out| {
            out.varint(track_event::TYPE, INSTANT);
            out.varint(track_event::TRACK_UUID, TRACK);
            out.string(track_event::CATEGORIES, CATEGORY);
            out.string(track_event::NAME, &format!("{LINUX_PERF}: {text}"));
        });
    });
    sink.write_packet(&instant);
}
