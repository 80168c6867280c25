//! The packets of an instance: `ProfilePacket`s and their interned data.

use std::time::Duration;

use ferretto_format::InternedData;
use ferretto_format::heap_sample::{PEAK, PEAK_COUNT};
use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_profiling::{Frame, Frames, Role};
use ferretto_proto::fields::profile_packet::histogram::{self, bucket};
use ferretto_proto::fields::profile_packet::{heap_sample, process_heap_samples, process_stats};
use ferretto_proto::fields::{profile_packet, trace_packet};
use ferretto_shm::{Clock, TraceWriter};
use ferretto_wire::{Encoder, encode};

use crate::books::{Books, Totals};

/// The size at which another packet is started.
const MAX_PACKET: usize = 400_000;
/// The largest size of interned data that waits for a dump.
const MAX_INTERNED: usize = 128 << 10;
/// The callstack of samples beyond the memory limit.
const TOO_MANY: &str = "[callstacks beyond the memory of the profiler]";

/// The callstack of a sample whose registers are of another machine.
const UNREADABLE: &str = "ERROR READING REGISTERS";

/// The state of a process for a dump.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) pid: u32,
    /// A time at which the process certainly existed, in nanoseconds of boot time.
    pub(crate) seen: u64,
    pub(crate) is_disconnected: bool,
    pub(crate) is_corrupt: bool,
    pub(crate) hit_guardrail: bool,
    /// Set if samples were lost.
    pub(crate) has_overrun: bool,
    pub(crate) client_error: u64,
    pub(crate) blocked_us: u64,
    pub(crate) unwinding: Unwinding,
}

/// Times and errors of unwinding.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unwinding {
    pub(crate) errors: u64,
    pub(crate) samples: u64,
    pub(crate) total_us: u64,
    /// A histogram by the number of bits of the time in microseconds.
    buckets: [u64; 20],
}

impl Unwinding {
    pub(crate) fn add(&mut self, time: Duration, failed: bool) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.samples += 1;
        self.errors += u64::from(failed);
        self.total_us = self.total_us.saturating_add(us);
        let bits = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bits.min(self.buckets.len() - 1)] += 1;
    }
}

/// Writes a packet of interned data.
fn write_interned(writer: &mut TraceWriter, data: &[u8]) {
    let packet = encode(|out| {
        out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        out.raw(data);
    });
    writer.write_packet(&packet);
}

/// The state of a heap for a dump.
#[derive(Debug)]
pub(crate) struct HeapState<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) interval: u64,
    pub(crate) first_interval: u64,
    pub(crate) time: u64,
    pub(crate) start_time: u64,
    pub(crate) books: &'a Books,
}

/// Writes the packets of an instance.
#[derive(Debug)]
pub(crate) struct Output {
    writer: TraceWriter,
    frames: Frames,
    index: u64,
    /// The interned data written so far, to repeat it.
    interned_written: Vec<Vec<u8>>,
    /// Set if readers may have lost the interned data.
    is_cleared: bool,
    /// The time of the last packet. Timestamps of a sequence must not decrease.
    time: u64,
    too_many: u64,
    unreadable: u64,
    at_max: bool,
}

impl Output {
    /// Starts the sequence.
    pub(crate) fn new(writer: TraceWriter, unnamed: Vec<Vec<u8>>, at_max: bool) -> Self {
        let mut frames = Frames::new();
        frames.set_unnamed(unnamed);
        let mut this = Self {
            writer,
            too_many: frames.placeholder(TOO_MANY),
            unreadable: frames.placeholder(UNREADABLE),
            frames,
            index: 0,
            interned_written: Vec::new(),
            is_cleared: false,
            time: 0,
            at_max,
        };
        this.begin();
        this
    }

    /// Starts the incremental state.
    fn begin(&mut self) {
        let mut empty = InternedData::new();
        for role in Role::ALL {
            empty.add_text(role.field(), 0, b"");
        }
        let fixed = encode(|out| {
            out.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
            empty.write_to(out);
        });
        self.writer.write_packet(&fixed);
        for data in &self.interned_written {
            write_interned(&mut self.writer, data);
        }
    }

    /// Makes the next dump repeat its interned data.
    pub(crate) fn clear(&mut self) {
        self.is_cleared = true;
    }

    /// Returns the iid of a callstack.
    pub(crate) fn callstack(&mut self, frames: &[Frame]) -> u64 {
        if frames.is_empty() {
            return self.unreadable;
        }
        if self.frames.are_full() {
            return self.too_many;
        }
        let number = self.frames.callstack(frames);
        if self.frames.new_entries().len() > MAX_INTERNED {
            self.write_interned_data();
        }
        number
    }

    fn write_interned_data(&mut self) {
        if self.frames.new_entries().is_empty() {
            return;
        }
        let data = encode(|out| self.frames.new_entries().write_to(out));
        write_interned(&mut self.writer, &data);
        self.interned_written.push(data);
    }

    /// Flushes the written packets.
    pub(crate) fn flush(&mut self) {
        self.write_interned_data();
        self.writer.flush(None);
    }

    /// Writes that a process is recorded by another session.
    pub(crate) fn rejected(&mut self, pid: u32) {
        self.packet(false, Clock::Boottime.now(), |out| {
            out.nested(profile_packet::PROCESS_DUMPS, |out| {
                out.varint(process_heap_samples::PID, pid.into());
                out.bool(process_heap_samples::REJECTED_CONCURRENT, true);
            });
        });
        self.writer.flush(None);
    }

    /// Writes a dump of a heap.
    pub(crate) fn dump(&mut self, state: &State, heap: &HeapState<'_>) {
        if std::mem::take(&mut self.is_cleared) {
            self.begin();
        }
        self.write_interned_data();
        let mut rows: Vec<(u64, Totals)> = heap
            .books
            .iter()
            .filter(|(_, totals)| totals.allocations > 0 && (!self.at_max || totals.peak > 0))
            .map(|(callstack, totals)| (callstack, *totals))
            .collect();
        rows.sort_unstable_by_key(|(callstack, _)| *callstack);
        let mut rows = rows.into_iter().peekable();
        loop {
            let mut samples = Vec::new();
            while samples.len() < MAX_PACKET
                && let Some((callstack, totals)) = rows.next()
            {
                let mut out = Encoder::new(&mut samples);
                out.nested(process_heap_samples::SAMPLES, |out| {
                    sample(out, callstack, &totals, self.at_max);
                });
            }
            let is_continued = rows.peek().is_some();
            // Readers attribute packets after the end of a process to another process.
            self.packet(is_continued, state.seen, |out| {
                out.nested(profile_packet::PROCESS_DUMPS, |out| {
                    header(out, state, heap);
                    out.raw(&samples);
                });
            });
            if !is_continued {
                return;
            }
        }
    }

    fn packet(
        &mut self,
        is_continued: bool,
        time: u64,
        write: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
    ) {
        self.time = self.time.max(time);
        let packet = encode(|out| {
            out.varint(trace_packet::TIMESTAMP, self.time);
            out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
            out.nested(trace_packet::PROFILE_PACKET, |out| {
                write(out);
                if is_continued {
                    out.bool(profile_packet::CONTINUED, true);
                }
                out.varint(profile_packet::INDEX, self.index);
            });
        });
        self.index += 1;
        self.writer.write_packet(&packet);
    }
}

fn sample(out: &mut Encoder<'_, Vec<u8>>, callstack: u64, totals: &Totals, at_max: bool) {
    out.varint(heap_sample::CALLSTACK_ID, callstack);
    if at_max {
        out.varint(heap_sample::SELF_MAX, totals.peak);
        out.varint(heap_sample::SELF_MAX_COUNT, totals.peak_count);
        return;
    }
    out.varint(heap_sample::SELF_ALLOCATED, totals.allocated);
    out.varint(heap_sample::SELF_FREED, totals.freed);
    out.varint(heap_sample::ALLOC_COUNT, totals.allocations);
    out.varint(heap_sample::FREE_COUNT, totals.frees);
    if totals.peak > 0 {
        out.varint(PEAK, totals.peak);
        out.varint(PEAK_COUNT, totals.peak_count);
    }
}

fn header(out: &mut Encoder<'_, Vec<u8>>, state: &State, heap: &HeapState<'_>) {
    out.varint(process_heap_samples::PID, state.pid.into());
    out.bool(process_heap_samples::FROM_STARTUP, true);
    out.bool(process_heap_samples::DISCONNECTED, state.is_disconnected);
    out.bool(process_heap_samples::BUFFER_OVERRAN, state.has_overrun);
    out.bool(process_heap_samples::BUFFER_CORRUPTED, state.is_corrupt);
    out.bool(process_heap_samples::HIT_GUARDRAIL, state.hit_guardrail);
    out.varint(process_heap_samples::CLIENT_ERROR, state.client_error);
    out.bytes(process_heap_samples::HEAP_NAME, heap.name);
    out.varint(process_heap_samples::SAMPLING_INTERVAL_BYTES, heap.interval);
    out.varint(
        process_heap_samples::ORIG_SAMPLING_INTERVAL_BYTES,
        heap.first_interval,
    );
    out.varint(process_heap_samples::TIMESTAMP, heap.time);
    out.varint(process_heap_samples::START_TIMESTAMP, heap.start_time);
    out.nested(process_heap_samples::STATS, |out| {
        let unwinding = &state.unwinding;
        out.varint(process_stats::UNWINDING_ERRORS, unwinding.errors);
        out.varint(process_stats::HEAP_SAMPLES, unwinding.samples);
        out.nested(process_stats::UNWINDING_TIME_US, |out| {
            for (number, count) in unwinding.buckets.iter().enumerate() {
                out.nested(histogram::BUCKETS, |out| {
                    if number + 1 < unwinding.buckets.len() {
                        out.varint(bucket::UPPER_LIMIT, 1 << number)
                    } else {
                        out.bool(bucket::MAX_BUCKET, true)
                    }
                    out.varint(bucket::COUNT, *count);
                });
            }
        });
        out.varint(process_stats::TOTAL_UNWINDING_TIME_US, unwinding.total_us);
        out.varint(process_stats::CLIENT_SPINLOCK_BLOCKED_US, state.blocked_us);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ferretto_wire::Fields;

    use super::*;
    use crate::books::{Kind, Operation};

    #[test]
    fn heap_025_large_dumps_are_split_and_each_part_has_the_header() {
        let packets = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&packets);
        let writer = TraceWriter::local(
            1,
            Box::new(move |packet: &[u8]| {
                kept.lock().expect("not poisoned").push(packet.to_vec());
            }),
        );
        let mut output = Output::new(writer, Vec::new(), false);
        let mut books = Books::new(true);
        for sequence in 1..60_000 {
            let kind = Kind::Malloc {
                size: 1 << 40,
                callstack: sequence,
            };
            let operation = Operation {
                sequence,
                address: sequence,
                kind,
            };
            books.add(operation, 0);
        }
        let heap = HeapState {
            name: b"libc.malloc",
            interval: 1,
            first_interval: 1,
            time: 2,
            start_time: 1,
            books: &books,
        };
        let state = State {
            pid: 77,
            ..State::default()
        };
        output.dump(&state, &heap);
        let packets = packets.lock().expect("not poisoned");
        let parts: Vec<&[u8]> = packets
            .iter()
            .filter_map(|packet| Fields::find(trace_packet::PROFILE_PACKET, packet)?.as_bytes())
            .collect();
        assert!(parts.len() > 2);
        let mut samples = 0;
        for (number, part) in parts.iter().enumerate() {
            let find = |field| Fields::find(field, part).and_then(|found| found.as_u64());
            assert_eq!(find(profile_packet::INDEX), Some(number as u64));
            let is_last = number + 1 == parts.len();
            assert_eq!(find(profile_packet::CONTINUED), (!is_last).then_some(1));
            let dump = Fields::find(profile_packet::PROCESS_DUMPS, part).expect("a dump");
            let dump = dump.as_bytes().expect("a message");
            let pid = Fields::find(process_heap_samples::PID, dump).expect("the header");
            assert_eq!(pid.as_u64(), Some(77));
            let fields = Fields::new(dump).map(|field| field.expect("well-formed"));
            samples += fields
                .filter(|field| field.number == process_heap_samples::SAMPLES)
                .count();
            assert!(part.len() < MAX_PACKET + 4096);
        }
        assert_eq!(samples, 59_999);
    }
}
