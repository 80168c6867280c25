//! Unfinished track events: open slices, states, and the values of counters.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_format::track_event::{
    CounterValue, EventKind, EventTimes, EventTrack, TrackEvent, is_extra_counter, is_relative_time,
};
use ferretto_proto::fields::track_event::legacy_event as legacy;
use ferretto_proto::fields::{debug_annotation, trace_packet, track_event as event};
use ferretto_proto::views::track_event::r#type::TYPE_COUNTER;
use ferretto_proto::views::{CounterDescriptorView, TrackDescriptorView};
use ferretto_wire::{Fields, encode};

use super::sequence::{Epoch, Incremental, Writer};
use super::stack::Stack;
use crate::packet::rewrite;

/// The name of the argument with the original begin time of a repeated slice.
const BEGAN: &str = "began_ns";
/// The name of events that repeat the times of threads.
const THREAD_TIME: &str = "thread_time";
/// The phase of events about threads.
const METADATA: u8 = b'M';

/// An unfinished event.
#[derive(Debug)]
struct OpenEvent {
    writer: Writer,
    epoch: Rc<Epoch>,
    packet: Box<[u8]>,
}

/// The last value of a counter.
#[derive(Debug)]
struct Counter {
    writer: Writer,
    time: u64,
    value: CounterValue,
    /// The number of restarts of its sequence when it was written.
    starts: u64,
}

impl Counter {
    /// Returns a packet with the value.
    fn packet(&self, writer: &Writer, track: u64, time: u64) -> Vec<u8> {
        encode(|out| {
            writer.write(out);
            writer.write_time(time, out);
            out.nested(trace_packet::TRACK_EVENT, |out| {
                out.int(event::TYPE, TYPE_COUNTER.into());
                out.varint(event::TRACK_UUID, track);
                match self.value {
                    CounterValue::Integer(value) => out.int(event::COUNTER_VALUE, value),
                    CounterValue::Double(value) => {
                        out.fixed64(event::DOUBLE_COUNTER_VALUE, value.to_bits());
                    }
                }
            });
        })
    }
}

/// The thread of an event with times of old writers: its track, and the process and thread that the
/// event names instead of those of the track.
type ThreadKey = (EventTrack, Option<i32>, Option<i32>);

/// The last CPU time and number of instructions of a thread, which are counters.
#[derive(Debug)]
struct ThreadTimes {
    writer: Writer,
    time: u64,
    thread_time: Option<i64>,
    instructions: Option<i64>,
}

impl ThreadTimes {
    /// Returns a packet with the values, in an event that is neither a slice nor a counter.
    fn packet(&self, (track, pid, tid): ThreadKey, at: u64) -> Vec<u8> {
        encode(|out| {
            self.writer.write(out);
            self.writer.write_time(at, out);
            out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
            out.nested(trace_packet::TRACK_EVENT, |out| {
                if let EventTrack::Uuid(track) = track {
                    out.varint(event::TRACK_UUID, track);
                }
                out.string(event::NAME, THREAD_TIME);
                let values = [
                    (event::THREAD_TIME_ABSOLUTE_US, self.thread_time),
                    (event::THREAD_INSTRUCTION_COUNT_ABSOLUTE, self.instructions),
                ];
                for (number, value) in values {
                    if let Some(value) = value {
                        out.int(number, value);
                    }
                }
                out.nested(event::LEGACY_EVENT, |out| {
                    out.varint(legacy::PHASE, METADATA.into());
                    let ids = [(legacy::PID_OVERRIDE, pid), (legacy::TID_OVERRIDE, tid)];
                    for (number, id) in ids {
                        if let Some(id) = id {
                            out.int(number, id.into());
                        }
                    }
                });
            });
        })
    }
}

/// The unfinished track events of a trace.
#[derive(Debug)]
pub(crate) struct Events {
    budget: Budget,
    /// The uuids of incremental counters.
    incremental: BTreeSet<u64>,
    slices: BTreeMap<EventTrack, Stack<OpenEvent>>,
    states: BTreeMap<EventTrack, (u64, OpenEvent)>,
    counters: BTreeMap<(u32, u64), Counter>,
    threads: BTreeMap<ThreadKey, ThreadTimes>,
}

/// Returns the duration of a complete event, which is written once for its begin and end.
pub(crate) fn duration(event: &[u8]) -> u64 {
    TrackEvent::read(event).duration().unwrap_or(0)
}

impl Events {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            incremental: BTreeSet::new(),
            slices: BTreeMap::new(),
            states: BTreeMap::new(),
            counters: BTreeMap::new(),
            threads: BTreeMap::new(),
        }
    }

    /// Reads a `TrackDescriptor`.
    pub(crate) fn describe(&mut self, descriptor: &[u8]) {
        let descriptor = TrackDescriptorView::read(descriptor);
        let counter = CounterDescriptorView::read(descriptor.counter.unwrap_or_default());
        if counter.is_incremental == Some(true)
            && let Some(uuid) = descriptor.uuid
        {
            self.incremental.insert(uuid);
        }
    }

    /// Adds the `TrackEvent` of a packet with its timestamp.
    pub(crate) fn add(
        &mut self,
        writer: Writer,
        state: &Incremental,
        time: u64,
        packet: &[u8],
        bytes: &[u8],
    ) {
        let event = TrackEvent::read(bytes);
        let defaults = &state.event.defaults;
        let track = event.track(defaults, writer.sequence);
        let open_event = || {
            let fits = self.budget.take(packet.len() + 128);
            fits.then(|| OpenEvent {
                writer,
                epoch: Rc::clone(&state.epoch),
                packet: packet.into(),
            })
        };
        match event.kind() {
            Some(kind) if kind.begins_slice() => {
                if let Some(open_event) = open_event() {
                    let slices = self.slices.entry(track).or_default();
                    slices.begin(time, open_event);
                }
            }
            Some(kind) if kind.ends_slice() => {
                self.slices.entry(track).or_default().end(time);
            }
            Some(EventKind::State) => {
                if let Some(open_event) = open_event() {
                    self.states.insert(track, (time, open_event));
                }
            }
            Some(EventKind::Counter) => {
                if let (Some(value), EventTrack::Uuid(uuid)) = (event.counter, track) {
                    self.count(writer, state.starts, time, uuid, value);
                }
            }
            _ => {}
        }
        for counter in event.extra_counters(defaults) {
            if let Ok(uuid) = counter.track {
                self.count(writer, state.starts, time, uuid, counter.value);
            }
        }
    }

    fn count(&mut self, writer: Writer, starts: u64, time: u64, track: u64, value: CounterValue) {
        let key = if self.incremental.contains(&track) {
            (writer.sequence, track)
        } else {
            (0, track)
        };
        let Some(known) = self.counters.get_mut(&key) else {
            if self.budget.take(entry_bytes::<((u32, u64), Counter)>()) {
                self.counters.insert(
                    key,
                    Counter {
                        writer,
                        time,
                        value,
                        starts,
                    },
                );
            }
            return;
        };
        let value = if key.0 != 0 && known.starts == starts {
            known.value.plus(value)
        } else {
            value
        };
        if key.0 != 0 || known.time <= time {
            *known = Counter {
                writer,
                time,
                value,
                starts,
            };
        }
    }

    /// Adds the times of an event in the encoding of old writers, with its timestamp.
    pub(crate) fn add_times(
        &mut self,
        writer: Writer,
        state: &Incremental,
        time: u64,
        bytes: &[u8],
        times: EventTimes,
    ) {
        // In microseconds, as they are encoded.
        let (thread_time, instructions) = (
            times.thread_time.map(|time| time / 1000),
            times.instructions,
        );
        if (thread_time, instructions) == (None, None) {
            return;
        }
        let event = TrackEvent::read(bytes);
        let track = event.track.or(state.event.defaults.track);
        let track = match track.filter(|uuid| *uuid != 0) {
            Some(uuid) => EventTrack::Uuid(uuid),
            None => EventTrack::Sequence(writer.sequence),
        };
        let legacy = event.legacy().unwrap_or_default();
        let key = (track, legacy.pid_override, legacy.tid_override);
        match self.threads.get_mut(&key) {
            Some(known) if known.time > time => {}
            Some(known) => {
                *known = ThreadTimes {
                    writer,
                    time,
                    thread_time: thread_time.or(known.thread_time),
                    instructions: instructions.or(known.instructions),
                };
            }
            None if self.budget.take(entry_bytes::<(ThreadKey, ThreadTimes)>()) => {
                let times = ThreadTimes {
                    writer,
                    time,
                    thread_time,
                    instructions,
                };
                self.threads.insert(key, times);
            }
            None => {}
        }
    }

    /// Writes the unfinished events as packets. `when` returns the timestamp for a sequence and an
    /// original time, `state_of` the packet with the current state of a sequence, and `starts_of`
    /// the number of its restarts. Returns the sequences that have their current state afterwards.
    pub(crate) fn write(
        &mut self,
        when: impl Fn(u32, u64) -> u64,
        state_of: impl Fn(&Writer) -> Vec<u8>,
        starts_of: impl Fn(u32) -> u64,
        out: &mut dyn FnMut(Vec<u8>),
    ) -> BTreeSet<u32> {
        // The events by sequence, to be sorted by begin time.
        let mut open_events: BTreeMap<u32, Vec<(u64, &OpenEvent)>> = BTreeMap::new();
        for stack in self.slices.values_mut() {
            for (time, one) in stack.open() {
                let of = open_events.entry(one.writer.sequence).or_default();
                of.push((*time, one));
            }
        }
        for (time, one) in self.states.values() {
            let of = open_events.entry(one.writer.sequence).or_default();
            of.push((*time, one));
        }
        let mut counters: BTreeMap<u32, Vec<(u64, &Counter)>> = BTreeMap::new();
        for ((_, track), counter) in &self.counters {
            let of = counters.entry(counter.writer.sequence).or_default();
            of.push((*track, counter));
        }
        let mut threads: BTreeMap<u32, Vec<(ThreadKey, &ThreadTimes)>> = BTreeMap::new();
        for (key, times) in &self.threads {
            let of = threads.entry(times.writer.sequence).or_default();
            of.push((*key, times));
        }
        let sequences = open_events.keys().chain(counters.keys());
        let sequences: BTreeSet<u32> = sequences.chain(threads.keys()).copied().collect();
        for sequence in &sequences {
            let mut open = open_events.remove(sequence).unwrap_or_default();
            open.sort_by_key(|(time, _)| *time);
            let mut epoch: Option<&Rc<Epoch>> = None;
            let mut writer = Writer::default();
            for (time, one) in open {
                if !epoch.is_some_and(|known| Rc::ptr_eq(known, &one.epoch)) {
                    out(one.epoch.packet(&one.writer));
                    epoch = Some(&one.epoch);
                }
                writer = one.writer;
                out(repeat(one, time, when(*sequence, time)));
            }
            let counters = counters.remove(sequence).unwrap_or_default();
            if let Some((_, counter)) = counters.first() {
                writer = counter.writer;
            }
            let threads = threads.remove(sequence).unwrap_or_default();
            if let Some((_, times)) = threads.first() {
                writer = times.writer;
            }
            // Sums restart at 0 when the state is cleared.
            let (old, summed): (Vec<_>, Vec<_>) =
                counters.into_iter().partition(|(track, counter)| {
                    self.incremental.contains(track) && counter.starts != starts_of(*sequence)
                });
            for counters in [old, summed] {
                out(state_of(&writer));
                for (track, counter) in counters {
                    let time = when(*sequence, counter.time);
                    out(counter.packet(&writer, track, time));
                }
            }
            for (key, times) in threads {
                out(times.packet(key, when(*sequence, times.time)));
            }
        }
        sequences
    }
}

/// Repeats an event that began at `began` as a packet at time `at`.
fn repeat(open_event: &OpenEvent, began: u64, at: u64) -> Vec<u8> {
    encode(|out| {
        open_event.writer.write(out);
        open_event.writer.write_time(at, out);
        out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        let body = Fields::find(trace_packet::TRACK_EVENT, &open_event.packet);
        let body = body.and_then(|body| body.as_bytes()).unwrap_or_default();
        out.nested(trace_packet::TRACK_EVENT, |out| {
            rewrite(body, out, |field, _| {
                // Counters are written separately, and the packet has the timestamp.
                is_extra_counter(field.number) || is_relative_time(field.number)
            });
            if at != began {
                out.nested(event::DEBUG_ANNOTATIONS, |out| {
                    out.string(debug_annotation::NAME, BEGAN);
                    out.varint(debug_annotation::UINT_VALUE, began);
                });
            }
        });
    })
}
