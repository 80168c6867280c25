//! Unfinished track events: open slices, states, and the values of counters.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_proto::fields::{
    counter_descriptor, debug_annotation, trace_packet, track_descriptor, track_event as event,
    track_event::legacy_event as legacy,
};
use ferretto_wire::{Fields, encode};

use super::sequence::{Epoch, Incremental, Writer};
use super::stack::Stack;
use crate::packet::rewrite;

const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;
const STATE: u64 = 5;

/// The name of the argument with the original begin time of a repeated slice.
const BEGAN: &str = "began_ns";

/// The key of a track: its uuid, or its sequence if it has no uuid, or the id of an async event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Track(u64),
    Sequence(u32),
    Id(u64),
}

/// An unfinished event.
#[derive(Debug)]
struct OpenEvent {
    writer: Writer,
    epoch: Rc<Epoch>,
    packet: Box<[u8]>,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Int(i64),
    Double(u64),
}

/// The last value of a counter.
#[derive(Debug)]
struct Counter {
    writer: Writer,
    time: u64,
    value: Value,
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
                out.varint(event::TYPE, COUNTER);
                out.varint(event::TRACK_UUID, track);
                match self.value {
                    Value::Int(value) => out.int(event::COUNTER_VALUE, value),
                    Value::Double(bits) => out.fixed64(event::DOUBLE_COUNTER_VALUE, bits),
                }
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
    slices: BTreeMap<Place, Stack<OpenEvent>>,
    states: BTreeMap<Place, (u64, OpenEvent)>,
    counters: BTreeMap<(u32, u64), Counter>,
}

/// The needed fields of a track event.
#[derive(Debug, Default)]
struct Parsed<'a> {
    kind: u64,
    track: Option<u64>,
    value: Option<Value>,
    extra_tracks: Vec<u64>,
    extra_double_tracks: Vec<u64>,
    extra: Vec<i64>,
    extra_double: Vec<&'a [u8]>,
    phase: u64,
    id: Option<u64>,
    duration: u64,
}

impl<'a> Parsed<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut parsed = Self::default();
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                event::TYPE => parsed.kind = field.as_u64().unwrap_or(0),
                event::TRACK_UUID => parsed.track = field.as_u64(),
                event::COUNTER_VALUE => parsed.value = field.as_i64().map(Value::Int),
                event::DOUBLE_COUNTER_VALUE => {
                    parsed.value = field.as_f64().map(|value| Value::Double(value.to_bits()));
                }
                event::EXTRA_COUNTER_TRACK_UUIDS => parsed.extra_tracks.extend(field.as_varints()),
                event::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {
                    parsed.extra_double_tracks.extend(field.as_varints());
                }
                event::EXTRA_COUNTER_VALUES => {
                    parsed
                        .extra
                        .extend(field.as_varints().map(u64::cast_signed));
                }
                event::EXTRA_DOUBLE_COUNTER_VALUES => match field.as_f64() {
                    Some(_) => {}
                    None => parsed.extra_double.extend(field.as_bytes()),
                },
                event::LEGACY_EVENT => {
                    for field in
                        Fields::new(field.as_bytes().unwrap_or_default()).map_while(Result::ok)
                    {
                        match field.number {
                            legacy::PHASE => parsed.phase = field.as_u64().unwrap_or(0),
                            legacy::DURATION_US => parsed.duration = field.as_u64().unwrap_or(0),
                            legacy::UNSCOPED_ID | legacy::LOCAL_ID | legacy::GLOBAL_ID => {
                                parsed.id = field.as_u64();
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        parsed
    }
}

/// Returns the duration of a complete event, which is written once for its begin and end.
pub(crate) fn duration(event: &[u8]) -> u64 {
    let parsed = Parsed::read(event);
    match parsed.phase == u64::from(b'X') {
        true => parsed.duration.saturating_mul(1000),
        false => 0,
    }
}

impl Events {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            incremental: BTreeSet::new(),
            slices: BTreeMap::new(),
            states: BTreeMap::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Reads a `TrackDescriptor`.
    pub(crate) fn describe(&mut self, descriptor: &[u8]) {
        let field = |number| Fields::find(number, descriptor);
        let counter = field(track_descriptor::COUNTER).and_then(|it| it.as_bytes());
        let is_difference = counter.is_some_and(|counter| {
            Fields::find(counter_descriptor::IS_INCREMENTAL, counter)
                .is_some_and(|it| it.as_bool() == Some(true))
        });
        let uuid = field(track_descriptor::UUID).and_then(|it| it.as_u64());
        if is_difference && let Some(uuid) = uuid {
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
        let event = Parsed::read(bytes);
        let track = event.track.or(state.track).filter(|track| *track != 0);
        let place = match (track, event.id) {
            (_, Some(id)) => Place::Id(id),
            (Some(track), _) => Place::Track(track),
            (None, None) => Place::Sequence(writer.sequence),
        };
        let open_event = || {
            let is_room = self.budget.take(packet.len() + 128);
            is_room.then(|| OpenEvent {
                writer,
                epoch: Rc::clone(&state.epoch),
                packet: packet.into(),
            })
        };
        let phase = u8::try_from(event.phase).unwrap_or(0);
        match (event.kind, phase) {
            (BEGIN, _) | (0, b'B' | b'b' | b'S') => {
                if let Some(open_event) = open_event() {
                    self.slices
                        .entry(place)
                        .or_default()
                        .begin(time, open_event);
                }
            }
            (END, _) | (0, b'E' | b'e' | b'F') => {
                self.slices.entry(place).or_default().end(time);
            }
            (STATE, _) => {
                if let Some(open_event) = open_event() {
                    self.states.insert(place, (time, open_event));
                }
            }
            (COUNTER, _) => {
                if let (Some(value), Some(track)) = (event.value, track) {
                    self.count(writer, state.starts, time, track, value);
                }
            }
            _ => {}
        }
        let or = |own: Vec<u64>, defaults: &[u64]| match own.is_empty() {
            true => defaults.to_vec(),
            false => own,
        };
        let tracks = or(event.extra_tracks, &state.extra_tracks);
        for (track, value) in tracks.into_iter().zip(event.extra) {
            self.count(writer, state.starts, time, track, Value::Int(value));
        }
        let doubles = event.extra_double.iter().flat_map(|packed| {
            let (values, _) = packed.as_chunks::<8>();
            values.iter().map(|bytes| u64::from_le_bytes(*bytes))
        });
        let tracks = or(event.extra_double_tracks, &state.extra_double_tracks);
        for (track, value) in tracks.into_iter().zip(doubles) {
            self.count(writer, state.starts, time, track, Value::Double(value));
        }
    }

    fn count(&mut self, writer: Writer, starts: u64, time: u64, track: u64, value: Value) {
        let key = match self.incremental.contains(&track) {
            true => (writer.sequence, track),
            false => (0, track),
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
        let value = match (known.value, value) {
            (Value::Int(sum), Value::Int(difference)) if key.0 != 0 && known.starts == starts => {
                Value::Int(sum.wrapping_add(difference))
            }
            (_, value) => value,
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
        let sequences: BTreeSet<u32> = open_events.keys().chain(counters.keys()).copied().collect();
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
                matches!(
                    field.number,
                    event::EXTRA_COUNTER_VALUES
                        | event::EXTRA_COUNTER_TRACK_UUIDS
                        | event::EXTRA_DOUBLE_COUNTER_VALUES
                        | event::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS
                        | event::TIMESTAMP_DELTA_US
                        | event::TIMESTAMP_ABSOLUTE_US
                        | event::THREAD_TIME_DELTA_US
                        | event::THREAD_TIME_ABSOLUTE_US
                        | event::THREAD_INSTRUCTION_COUNT_DELTA
                        | event::THREAD_INSTRUCTION_COUNT_ABSOLUTE
                )
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
