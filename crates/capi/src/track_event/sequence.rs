//! The packets of one thread in one recording: what all events need, and when.

use std::sync::Arc;

use ferretto::track_event::{EventBuffer, EventEncoder, Process, Thread};
use ferretto_client::TraceWriter;
use ferretto_format::clock::{BOOTTIME, INCREMENTAL, SCALED};
use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_proto::fields::{
    clock_snapshot, process_descriptor, thread_descriptor, trace_packet, trace_packet_defaults,
    track_descriptor, track_event_defaults,
};

use super::category::is_wanted;
use super::filter::Filter;
use super::interner::{Interner, Numbers};
use super::text;
use crate::abi::{PerfettoTeCategoryDescriptor, PerfettoTeTimestamp};
use crate::clock::now;

/// How many verdicts on categories that are not registered are kept.
const VERDICTS: usize = 20;

/// After so many bytes a sequence starts anew by itself: what is left of it in a ring buffer can be read then, whatever was
/// overwritten, and what is remembered stays small. That takes a few hundred bytes.
const RENEWAL: u64 = 64 << 10;

/// When something happens, in the clock of the sequence unless said otherwise.
pub(super) fn present() -> PerfettoTeTimestamp {
    PerfettoTeTimestamp {
        clock_id: INCREMENTAL,
        value: now(),
    }
}

/// What a thread keeps for a recording.
pub(super) struct Sequence {
    filter: Arc<Filter>,
    process: &'static Process,
    thread: Thread,
    clock: Clock,
    pub(super) interner: Interner,
    /// Tracks described since the last reset.
    pub(super) described: Numbers,
    /// Whether categories are wanted, by name and tags.
    verdicts: Vec<(Vec<u8>, bool)>,
    /// What was written before cannot be relied on.
    is_stale: bool,
    drop_count: u64,
    /// Starts anew when the writer has written so much.
    renew_at: u64,
}

impl Sequence {
    pub(super) fn new(filter: Arc<Filter>, drop_count: u64) -> Self {
        Self {
            clock: Clock::new(&filter),
            filter,
            process: Process::current(),
            thread: Thread::current(),
            interner: Interner::new(),
            described: Numbers::default(),
            verdicts: Vec::new(),
            is_stale: true,
            drop_count,
            renew_at: 0,
        }
    }

    /// Forgets what was interned, before the next event.
    pub(super) fn clear(&mut self) {
        self.is_stale = true;
    }

    /// The number of the thread's track.
    pub(super) fn thread_track(&self) -> u64 {
        self.thread.track(self.process)
    }

    /// The number of the process's track.
    pub(super) fn process_track(&self) -> u64 {
        self.process.track
    }

    /// Starts a packet that something happened at a time.
    #[inline]
    pub(super) fn packet<'b>(
        &mut self,
        buffer: &'b mut EventBuffer,
        time: PerfettoTeTimestamp,
    ) -> EventEncoder<'b> {
        let mut packet = begin(buffer);
        self.clock.write(&mut packet, time, NEEDS_INCREMENTAL_STATE);
        packet
    }

    /// Starts anew if what was written before is void, was lost or may have been overwritten: a reader skips whatever relies on it. False if there
    /// is no room for that, and the event is lost, too.
    #[inline]
    pub(super) fn prepare(
        &mut self,
        writer: &mut TraceWriter,
        buffer: &mut EventBuffer,
        time: PerfettoTeTimestamp,
    ) -> bool {
        let is_lost = self.drop_count != writer.drop_count();
        if self.is_stale || is_lost || writer.written() >= self.renew_at {
            self.reset(writer, buffer, time);
        }
        !self.is_stale
    }

    #[cold]
    fn reset(
        &mut self,
        writer: &mut TraceWriter,
        buffer: &mut EventBuffer,
        time: PerfettoTeTimestamp,
    ) {
        self.interner.clear();
        self.described.clear();
        self.verdicts.clear();
        self.drop_count = writer.drop_count();
        self.renew_at = writer.written() + RENEWAL;
        let is_own = matches!(time.clock_id, BOOTTIME | INCREMENTAL);
        let start = if is_own { time.value } else { now() };
        self.clock.last = start;
        let mut packet = begin(buffer);
        self.clock
            .write(&mut packet, time, INCREMENTAL_STATE_CLEARED);
        packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |defaults| {
            let clock = self.clock.default.into();
            defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, clock);
            defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |defaults| {
                defaults.varint(track_event_defaults::TRACK_UUID, self.thread_track());
            });
        });
        self.clock.write_snapshot(&mut packet, start);
        writer.write_packet(buffer.written());
        // A packet that was discarded does not count: every event tries again. What would follow now could find room,
        // and be of no use.
        self.is_stale = writer.is_dropping();
        if self.is_stale {
            return;
        }
        self.describe_thread(buffer, time);
        writer.write_packet(buffer.written());
        self.describe_process(buffer, time);
        writer.write_packet(buffer.written());
    }

    fn describe_thread(&mut self, buffer: &mut EventBuffer, time: PerfettoTeTimestamp) {
        let mut packet = self.packet(buffer, time);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.varint(track_descriptor::UUID, self.thread_track());
            descriptor.varint(track_descriptor::PARENT_UUID, self.process.track);
            descriptor.nested(track_descriptor::THREAD, |thread| {
                thread.int(thread_descriptor::PID, self.process.pid.into());
                thread.int(thread_descriptor::TID, self.thread.tid.into());
                if !self.thread.name.is_empty() {
                    thread.bytes(thread_descriptor::THREAD_NAME, &self.thread.name);
                }
            });
        });
    }

    fn describe_process(&mut self, buffer: &mut EventBuffer, time: PerfettoTeTimestamp) {
        let mut packet = self.packet(buffer, time);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.varint(track_descriptor::UUID, self.process.track);
            descriptor.nested(track_descriptor::PROCESS, |process| {
                if let Some(name) = self.process.command_line.first() {
                    process.bytes(process_descriptor::PROCESS_NAME, name);
                }
                for part in &self.process.command_line {
                    process.bytes(process_descriptor::CMDLINE, part);
                }
                process.int(process_descriptor::PID, self.process.pid.into());
            });
        });
    }

    /// Whether the recording wants a category that is not registered.
    ///
    /// # Safety
    ///
    /// The descriptor is valid with all it points to.
    pub(super) unsafe fn wants(&mut self, descriptor: &PerfettoTeCategoryDescriptor) -> bool {
        // SAFETY: by contract.
        let key = unsafe { key(descriptor) };
        if let Some((_, verdict)) = self.verdicts.iter().find(|(known, _)| *known == key) {
            return *verdict;
        }
        // SAFETY: by contract.
        let verdict = unsafe { is_wanted(descriptor, &self.filter) };
        if self.verdicts.len() < VERDICTS {
            self.verdicts.push((key, verdict));
        }
        verdict
    }
}

/// What the verdict on a category depends on.
///
/// # Safety
///
/// The descriptor is valid with all it points to.
unsafe fn key(descriptor: &PerfettoTeCategoryDescriptor) -> Vec<u8> {
    // SAFETY: by contract.
    unsafe {
        let mut key = text(descriptor.name).unwrap_or_default().to_vec();
        if !descriptor.tags.is_null() {
            for tag in 0..descriptor.num_tags {
                key.push(0);
                key.extend(text(*descriptor.tags.add(tag)).unwrap_or_default());
            }
        }
        key
    }
}

/// A new packet.
#[inline]
pub(super) fn begin(buffer: &mut EventBuffer) -> EventEncoder<'_> {
    buffer.clear();
    EventEncoder::new(buffer)
}

/// How timestamps are written.
#[derive(Debug)]
struct Clock {
    /// Nanoseconds per unit, at least 1.
    unit: u64,
    /// The clock of packets that name none.
    default: u32,
    /// The time that differences refer to.
    last: u64,
}

impl Clock {
    fn new(filter: &Filter) -> Self {
        let default = match (filter.absolute_timestamps, filter.unit) {
            (false, _) => INCREMENTAL,
            (true, 1) => BOOTTIME,
            (true, _) => SCALED,
        };
        Self {
            unit: filter.unit,
            default,
            last: 0,
        }
    }

    fn units(&self, time: u64) -> u64 {
        if self.unit == 1 {
            time
        } else {
            time / self.unit
        }
    }

    /// Writes the fields that every packet begins with.
    #[inline]
    fn write(&mut self, packet: &mut EventEncoder<'_>, time: PerfettoTeTimestamp, flags: u64) {
        let clock = match time.clock_id {
            INCREMENTAL => self.default,
            other => other,
        };
        if clock == INCREMENTAL && time.value >= self.last {
            let units = self.units(time.value - self.last);
            // Whole units only, so that what is cut off is not lost.
            self.last += units * self.unit;
            packet.varint(trace_packet::TIMESTAMP, units);
        } else {
            let (value, named) = match clock {
                INCREMENTAL if self.unit == 1 => (time.value, Some(BOOTTIME)),
                INCREMENTAL => (self.units(time.value), Some(SCALED)),
                clock if clock == self.default => (self.units(time.value), None),
                clock => (time.value, Some(clock)),
            };
            packet.varint(trace_packet::TIMESTAMP, value);
            if let Some(clock) = named {
                packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock.into());
            }
        }
        packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
    }

    /// Tells readers how the clocks of the sequence relate to the time since boot.
    fn write_snapshot(&self, packet: &mut EventEncoder<'_>, start: u64) {
        if self.default == BOOTTIME {
            return;
        }
        packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
            let mut add = |id: u32, time: u64, is_incremental: Option<bool>| {
                snapshot.nested(clock_snapshot::CLOCKS, |clock| {
                    clock.varint(clock_snapshot::clock::CLOCK_ID, id.into());
                    clock.varint(clock_snapshot::clock::TIMESTAMP, time);
                    if let Some(is_incremental) = is_incremental {
                        clock.bool(clock_snapshot::clock::IS_INCREMENTAL, is_incremental);
                        clock.varint(clock_snapshot::clock::UNIT_MULTIPLIER_NS, self.unit);
                    }
                });
            };
            add(BOOTTIME, start, None);
            if self.default == INCREMENTAL {
                add(INCREMENTAL, self.units(start), Some(true));
            }
            if self.unit > 1 {
                add(SCALED, self.units(start), Some(false));
            }
        });
    }
}
