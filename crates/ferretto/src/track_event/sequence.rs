//! The packets of one thread in one recording.

use std::sync::Arc;

use ferretto_client::TraceWriter;
use ferretto_proto::fields::{
    clock_snapshot, debug_annotation, process_descriptor, thread_descriptor, trace_packet,
    trace_packet_defaults, track_descriptor, track_event, track_event_defaults,
};

use super::buffer::{EventBuffer, EventEncoder};
use super::event::{CounterValue, Kind, Name};
use super::filter::Filter;
use super::identity::{Process, Thread, counter_track};
use super::interner::Interner;
use super::value::{Annotation, Argument};

/// Flags of a packet: what was interned before is void; or: what was interned before is needed.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Clocks: time since boot; differences to the packet before; the first in units other than nanoseconds.
const BOOTTIME: u64 = 6;
const INCREMENTAL: u64 = 64;
const SCALED: u64 = 65;

/// The type of an event that sets a counter.
const COUNTER: u64 = 4;

/// In place of a name that a config wants left out.
const HIDDEN: &str = "FILTERED";

/// Writes events and whatever they need to be understood.
#[derive(Debug)]
pub(super) struct Sequence {
    writer: TraceWriter,
    filter: Arc<Filter>,
    process: &'static Process,
    thread: Thread,
    clock: Clock,
    interner: Interner,
    /// Tracks described since the last reset, sorted.
    described: Vec<u64>,
    /// What was written before cannot be relied on.
    is_stale: bool,
    drop_count: u64,
}

impl Sequence {
    pub(super) fn new(
        writer: TraceWriter,
        filter: Arc<Filter>,
        process: &'static Process,
        thread: Thread,
    ) -> Self {
        Self {
            clock: Clock::new(&filter),
            drop_count: writer.drop_count(),
            writer,
            filter,
            process,
            thread,
            interner: Interner::default(),
            described: Vec::new(),
            is_stale: true,
        }
    }

    /// Forgets what was interned, before the next event.
    pub(super) fn clear(&mut self) {
        self.is_stale = true;
    }

    pub(super) fn flush(&mut self) {
        self.writer.flush(None);
    }

    /// Writes a slice or instant event.
    pub(super) fn event(
        &mut self,
        buffer: &mut EventBuffer,
        now: u64,
        category: &'static str,
        kind: Kind,
        name: Option<Name<'_>>,
        arguments: &[(&'static str, &dyn Argument)],
    ) {
        self.prepare(buffer, now);
        let Self {
            writer,
            interner,
            filter,
            clock,
            ..
        } = self;
        let mut packet = begin(buffer);
        clock.write(&mut packet, now, NEEDS_STATE);
        packet.nested(trace_packet::TRACK_EVENT, |event| {
            event.varint(track_event::TYPE, kind as u64);
            if kind != Kind::End {
                event.varint(track_event::CATEGORY_IIDS, interner.category(category));
            }
            match name {
                Some(Name::Static(name)) => {
                    event.varint(track_event::NAME_IID, interner.name(name));
                }
                Some(Name::Dynamic(_)) if filter.hide_dynamic_names => {
                    event.string(track_event::NAME, HIDDEN);
                }
                Some(Name::Dynamic(name)) => event.string(track_event::NAME, name),
                None => {}
            }
            for (name, value) in arguments.iter().filter(|_| !filter.hide_arguments) {
                let name = interner.argument(name);
                event.nested(track_event::DEBUG_ANNOTATIONS, |annotation| {
                    annotation.varint(debug_annotation::NAME_IID, name);
                    value.write(&mut Annotation::new(annotation, interner));
                });
            }
        });
        if !interner.pending().is_empty() {
            packet.bytes(trace_packet::INTERNED_DATA, interner.pending());
            interner.written();
        }
        writer.write_packet(buffer.written());
    }

    /// Sets a counter of the process.
    pub(super) fn counter(
        &mut self,
        buffer: &mut EventBuffer,
        now: u64,
        name: Name<'_>,
        value: CounterValue,
    ) {
        self.prepare(buffer, now);
        let (Name::Static(text) | Name::Dynamic(text)) = name;
        let track = counter_track(self.process, text);
        if let Err(index) = self.described.binary_search(&track) {
            self.described.insert(index, track);
            self.describe_counter(buffer, now, track, name);
        }
        let mut packet = begin(buffer);
        self.clock.write(&mut packet, now, NEEDS_STATE);
        packet.nested(trace_packet::TRACK_EVENT, |event| {
            event.varint(track_event::TYPE, COUNTER);
            event.varint(track_event::TRACK_UUID, track);
            match value {
                CounterValue::Integer(value) => event.int(track_event::COUNTER_VALUE, value),
                CounterValue::Double(value) => {
                    event.double(track_event::DOUBLE_COUNTER_VALUE, value);
                }
            }
        });
        self.writer.write_packet(buffer.written());
    }

    fn describe_counter(&mut self, buffer: &mut EventBuffer, now: u64, track: u64, name: Name<'_>) {
        let mut packet = begin(buffer);
        self.clock.write(&mut packet, now, NEEDS_STATE);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.varint(track_descriptor::UUID, track);
            descriptor.varint(track_descriptor::PARENT_UUID, self.process.track);
            match name {
                Name::Static(name) => descriptor.string(track_descriptor::STATIC_NAME, name),
                Name::Dynamic(name) => descriptor.string(track_descriptor::NAME, name),
            }
            descriptor.nested(track_descriptor::COUNTER, |_| {});
        });
        self.writer.write_packet(buffer.written());
    }

    /// Starts anew if what was written before is void or was lost: a reader skips whatever relies on it.
    fn prepare(&mut self, buffer: &mut EventBuffer, now: u64) {
        if self.is_stale || self.drop_count != self.writer.drop_count() {
            self.reset(buffer, now);
        }
    }

    #[cold]
    fn reset(&mut self, buffer: &mut EventBuffer, now: u64) {
        self.interner.clear();
        self.described.clear();
        self.drop_count = self.writer.drop_count();
        let track = self.thread.track(self.process);
        let mut packet = begin(buffer);
        self.clock.reset(now);
        self.clock.write(&mut packet, now, CLEARED);
        packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |defaults| {
            let clock = self.clock.default_clock();
            defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, clock);
            defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |defaults| {
                defaults.varint(track_event_defaults::TRACK_UUID, track);
            });
        });
        self.clock.write_snapshot(&mut packet, now);
        self.writer.write_packet(buffer.written());
        // While there is no room this packet is discarded, and every event tries again.
        self.is_stale = self.writer.is_dropping();
        self.describe_thread(buffer, now, track);
        self.describe_process(buffer, now);
    }

    fn describe_thread(&mut self, buffer: &mut EventBuffer, now: u64, track: u64) {
        let mut packet = begin(buffer);
        self.clock.write(&mut packet, now, NEEDS_STATE);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.varint(track_descriptor::UUID, track);
            descriptor.varint(track_descriptor::PARENT_UUID, self.process.track);
            descriptor.nested(track_descriptor::THREAD, |thread| {
                thread.int(thread_descriptor::PID, self.process.pid.into());
                thread.int(thread_descriptor::TID, self.thread.tid.into());
                if !self.thread.name.is_empty() {
                    thread.bytes(thread_descriptor::THREAD_NAME, &self.thread.name);
                }
            });
        });
        self.writer.write_packet(buffer.written());
    }

    fn describe_process(&mut self, buffer: &mut EventBuffer, now: u64) {
        let mut packet = begin(buffer);
        self.clock.write(&mut packet, now, NEEDS_STATE);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.varint(track_descriptor::UUID, self.process.track);
            descriptor.nested(track_descriptor::PROCESS, |process| {
                process.int(process_descriptor::PID, self.process.pid.into());
                for part in &self.process.command_line {
                    process.bytes(process_descriptor::CMDLINE, part);
                }
                if let Some(name) = self.process.command_line.first() {
                    process.bytes(process_descriptor::PROCESS_NAME, name);
                }
            });
        });
        self.writer.write_packet(buffer.written());
    }
}

/// A new packet.
#[inline]
fn begin(buffer: &mut EventBuffer) -> EventEncoder<'_> {
    buffer.clear();
    EventEncoder::new(buffer)
}

/// How timestamps are written.
#[derive(Debug)]
struct Clock {
    /// Nanoseconds per unit, at least 1.
    unit: u64,
    is_incremental: bool,
    /// The time that differences refer to.
    last: u64,
}

impl Clock {
    fn new(filter: &Filter) -> Self {
        Self {
            unit: filter.timestamp_unit,
            is_incremental: !filter.absolute_timestamps,
            last: 0,
        }
    }

    fn reset(&mut self, now: u64) {
        self.last = now;
    }

    fn absolute_clock(&self) -> u64 {
        if self.unit == 1 { BOOTTIME } else { SCALED }
    }

    /// The clock of packets that name none.
    fn default_clock(&self) -> u64 {
        if self.is_incremental {
            INCREMENTAL
        } else {
            self.absolute_clock()
        }
    }

    /// Writes the fields that every packet begins with.
    #[inline]
    fn write(&mut self, packet: &mut EventEncoder<'_>, now: u64, flags: u64) {
        if self.is_incremental && now >= self.last {
            let units = if self.unit == 1 {
                now - self.last
            } else {
                (now - self.last) / self.unit
            };
            // Whole units only, so that what is cut off is not lost.
            self.last += units * self.unit;
            packet.varint(trace_packet::TIMESTAMP, units);
        } else {
            packet.varint(trace_packet::TIMESTAMP, now / self.unit);
            if self.is_incremental {
                packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, self.absolute_clock());
            }
        }
        packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
    }

    /// Tells readers how the clocks of the sequence relate to the time since boot.
    fn write_snapshot(&self, packet: &mut EventEncoder<'_>, now: u64) {
        let mut clocks = vec![(BOOTTIME, now, None)];
        if self.is_incremental {
            clocks.push((INCREMENTAL, now / self.unit, Some(true)));
        }
        if self.unit != 1 {
            clocks.push((SCALED, now / self.unit, Some(false)));
        }
        if clocks.len() == 1 {
            return;
        }
        packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
            for (id, time, scaled) in clocks {
                snapshot.nested(clock_snapshot::CLOCKS, |clock| {
                    clock.varint(clock_snapshot::clock::CLOCK_ID, id);
                    clock.varint(clock_snapshot::clock::TIMESTAMP, time);
                    if let Some(is_incremental) = scaled {
                        clock.bool(clock_snapshot::clock::IS_INCREMENTAL, is_incremental);
                        clock.varint(clock_snapshot::clock::UNIT_MULTIPLIER_NS, self.unit);
                    }
                });
            }
        });
    }
}
