//! Remarks of a data source about itself, in the trace, for readers who wonder later why something
//! is missing.
//!
//! The schema has no sentences of profilers, so they are instants on a track that has the data
//! source's name, in a category that `ferretto summary` looks for.

use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_proto::fields::perf_sample as sample;
use ferretto_proto::fields::{trace_packet, track_descriptor, track_event};
use ferretto_shm::{Clock, TraceWriter};
use ferretto_wire::encode;

use super::defaults::timed_now;
use super::packets::PacketSink;
use crate::registration::LINUX_PERF;

/// Category of such instants.
const CATEGORY: &str = "ferretto.remark";
/// The track; any number that others do not choose.
const TRACK: u64 = 0x6c69_6e75_782e_7066;
/// Number of `TYPE_INSTANT`.
const INSTANT: u64 = 3;
/// Number of `PROFILER_STOP_UNKNOWN`, for whatever is not the guardrail.
const STOPPED: u64 = 0;

/// Writes a sentence into a sequence that has begun.
pub(super) fn write(sink: &mut impl PacketSink, text: &str) {
    write_flagged(sink, NEEDS_INCREMENTAL_STATE, text);
}

/// Writes that a data source has not started: all of its sequence.
pub(super) fn not_started(mut writer: TraceWriter, reason: &str) {
    write_flagged(
        &mut writer,
        INCREMENTAL_STATE_CLEARED,
        &format!("not started: {reason}"),
    );
    let stopped = encode(|out| {
        timed_now(out, Clock::Boottime.now());
        out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        out.nested(trace_packet::PERF_SAMPLE, |out| {
            out.nested(sample::PRODUCER_EVENT, |out| {
                out.varint(sample::producer_event::SOURCE_STOP_REASON, STOPPED);
            });
        });
    });
    writer.write_packet(&stopped);
    writer.flush(None);
}

fn write_flagged(sink: &mut impl PacketSink, flags: u64, text: &str) {
    let now = Clock::Boottime.now();
    let track = encode(|out| {
        timed_now(out, now);
        out.varint(trace_packet::SEQUENCE_FLAGS, flags);
        out.nested(trace_packet::TRACK_DESCRIPTOR, |out| {
            out.varint(track_descriptor::UUID, TRACK);
            out.string(track_descriptor::NAME, LINUX_PERF);
        });
    });
    sink.write_packet(&track);
    let instant = encode(|out| {
        timed_now(out, now);
        out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        out.nested(trace_packet::TRACK_EVENT, |out| {
            out.varint(track_event::TYPE, INSTANT);
            out.varint(track_event::TRACK_UUID, TRACK);
            out.string(track_event::CATEGORIES, CATEGORY);
            out.string(track_event::NAME, &format!("{LINUX_PERF}: {text}"));
        });
    });
    sink.write_packet(&instant);
}
