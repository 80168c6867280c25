//! Counters of GPUs, which producers describe themselves.

use std::collections::hash_map::Entry;

use ferretto_proto::fields::gpu_counter_descriptor as descriptor;
use ferretto_proto::fields::gpu_counter_event as event;
use ferretto_proto::fields::{interned_data, interned_gpu_counter_descriptor as interned};
use ferretto_wire::{Field, Fields};
use rustc_hash::FxHashMap;

use super::{dimensions, repeated};
use crate::import::Input;
use crate::import::context::{Context, EventState};
use crate::import::message::Message;
use crate::schema::{ArgValue, GpuCounterGroupRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// The names of units, by their values of `MeasureUnit`.
const UNITS: [&str; 41] = [
    "",
    "bit",
    "Kb",
    "Mb",
    "Gb",
    "Tb",
    "Pb",
    "B",
    "KB",
    "MB",
    "GB",
    "TB",
    "PB",
    "Hz",
    "KHz",
    "MHz",
    "GHz",
    "THz",
    "PHz",
    "ns",
    "us",
    "ms",
    "s",
    "min",
    "h",
    "Vertex",
    "Pixel",
    "Triangle",
    "mW",
    "W",
    "kW",
    "J",
    "V",
    "A",
    "C",
    "F",
    "K",
    "%",
    "Primitive",
    "Fragment",
    "Instruction",
];

/// The direction of values that apply from their own time on.
const FORWARDS: u64 = 2;

/// The maximum numbers of counters and of interned descriptors.
const MAX_COUNTERS: usize = 1 << 16;
const MAX_DESCRIPTORS: usize = 1 << 14;

/// The counters of all descriptors.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Counters of descriptors in events, which share their ids.
    shared: FxHashMap<u32, Counter>,
    /// Counters of interned descriptors.
    interned: FxHashMap<Key, FxHashMap<u32, Counter>>,
    /// The last value of counters whose values apply up to their time, by track.
    last: FxHashMap<u32, u32>,
    /// The number of counters of interned descriptors.
    counters: usize,
}

/// The identity of an interned descriptor: sequence, generation of its state, and iid.
type Key = (u32, u32, u64);

#[derive(Debug, Clone, Copy)]
struct Counter {
    track: u32,
    /// Set if a value applies from its time on, otherwise from the time of the previous value.
    is_forwards: bool,
}

impl Counters {
    /// Reads the descriptor of an event, in the order of the file. Returns false if the event has
    /// no values to be parsed.
    pub(super) fn begin(&mut self, cx: &mut Context, input: &Input<'_>) -> bool {
        let message = Message::<5>::read(input.bytes);
        if message.has(event::COUNTER_DESCRIPTOR_IID) {
            let iid = message.uint(event::COUNTER_DESCRIPTOR_IID);
            self.describe_interned(cx, iid, input.state);
        } else if message.has(event::COUNTER_DESCRIPTOR) {
            let gpu = message.u32(event::GPU_ID);
            self.describe_shared(
                cx,
                gpu,
                message.bytes(event::COUNTER_DESCRIPTOR),
                input.offset,
            );
        }
        if !message.has(event::COUNTERS) {
            return false;
        }
        if input.header.timestamp.is_none() {
            let stat = Stat::gpu_counters_missing_timestamp;
            cx.store.log_at(stat, input.offset);
            return false;
        }
        true
    }

    fn describe_interned(&mut self, cx: &mut Context, iid: u64, state: EventState<'_>) {
        let key = key(state, iid);
        if self.interned.contains_key(&key)
            || self.interned.len() >= MAX_DESCRIPTORS
            || self.counters >= MAX_COUNTERS
        {
            return;
        }
        let bytes = state.message(interned_data::GPU_COUNTER_DESCRIPTORS, iid);
        let message = Message::<4>::read(bytes.unwrap_or_default());
        if !message.has(interned::COUNTER_DESCRIPTOR) {
            cx.store.stats.add(Stat::gpu_counters_invalid_spec, 1);
            return;
        }
        let gpu = message.u32(interned::GPU_ID);
        let bytes = message.bytes(interned::COUNTER_DESCRIPTOR);
        let groups = Groups::read(cx, bytes);
        let mut counters = FxHashMap::default();
        for spec in parts(bytes, descriptor::SPECS).take(MAX_COUNTERS) {
            let Some(spec) = Spec::read(spec) else {
                continue;
            };
            let counter = spec.counter(cx, gpu);
            // The first counter with an id applies.
            if let Entry::Vacant(vacant) = counters.entry(spec.id) {
                vacant.insert(counter);
                groups.add(cx, &spec, counter.track);
            }
        }
        groups.add_declared(cx, &counters);
        self.counters += counters.len();
        self.interned.insert(key, counters);
    }

    fn describe_shared(&mut self, cx: &mut Context, gpu: u32, bytes: &[u8], offset: u64) {
        let groups = Groups::read(cx, bytes);
        let mut new = FxHashMap::default();
        for spec in parts(bytes, descriptor::SPECS).take(MAX_COUNTERS) {
            let invalid = Stat::gpu_counters_invalid_spec;
            let Some(spec) = Spec::read(spec) else {
                cx.store.log_at(invalid, offset);
                continue;
            };
            if self.shared.contains_key(&spec.id) {
                let mut args = ArgSet::default();
                let store = &mut cx.store;
                args.put(store, "counter_id", ArgValue::Uint(spec.id.into()));
                let name = store.strings.intern_bytes(spec.name);
                args.put(store, "counter_name", ArgValue::Text(name));
                store.log_about(invalid, offset, args);
                continue;
            }
            if self.shared.len() >= MAX_COUNTERS {
                break;
            }
            let counter = spec.counter(cx, gpu);
            groups.add(cx, &spec, counter.track);
            self.shared.insert(spec.id, counter);
            new.insert(spec.id, counter);
        }
        groups.add_declared(cx, &new);
    }

    /// Adds the values of an event.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8], state: EventState<'_>) {
        let iid = Fields::find(event::COUNTER_DESCRIPTOR_IID, bytes);
        let iid = iid.and_then(|iid| iid.as_u64());
        let counters = match iid {
            Some(iid) => match self.interned.get(&key(state, iid)) {
                Some(counters) => counters,
                None => return,
            },
            None => &self.shared,
        };
        for value in parts(bytes, event::COUNTERS) {
            use event::gpu_counter as of;
            let (mut id, mut value_of) = (None, None);
            for part in Fields::new(value).map_while(Result::ok) {
                match part.number {
                    of::COUNTER_ID => id = part.as_u32(),
                    of::INT_VALUE => value_of = part.as_i64().map(|value| value as f64),
                    of::DOUBLE_VALUE => value_of = part.as_f64(),
                    _ => {}
                }
            }
            let (Some(id), Some(value)) = (id, value_of) else {
                continue;
            };
            match counters.get(&id) {
                Some(counter) => counter.add(cx, ts, value, &mut self.last),
                None if iid.is_some() => {
                    cx.store.stats.add(Stat::gpu_counters_invalid_spec, 1);
                }
                None => {}
            }
        }
    }
}

impl Counter {
    fn add(self, cx: &mut Context, ts: i64, value: f64, last: &mut FxHashMap<u32, u32>) {
        let mut add = |value| {
            let args = &mut ArgSet::default();
            cx.counters.add(&mut cx.store, ts, self.track, value, args)
        };
        if self.is_forwards {
            add(value);
            return;
        }
        // The value applies since the previous time, so it belongs to the previous row.
        let Some(row) = add(0.0) else { return };
        if let Some(previous) = last.insert(self.track, row) {
            cx.store.tables.counter.value.set(previous, value);
        }
    }
}

/// A `GpuCounterSpec`.
#[derive(Debug)]
struct Spec<'a> {
    id: u32,
    name: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Spec<'a> {
    /// Reads a counter; `None` without an id or a name.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        use descriptor::gpu_counter_spec as of;
        let message = Message::<3>::read(bytes);
        (message.has(of::COUNTER_ID) && message.has(of::NAME)).then(|| Self {
            id: message.u32(of::COUNTER_ID),
            name: message.bytes(of::NAME),
            bytes,
        })
    }

    /// Returns the counter on this GPU.
    fn counter(&self, cx: &mut Context, gpu: u32) -> Counter {
        use descriptor::gpu_counter_spec as of;
        let message = Message::<12>::read(self.bytes);
        let name = cx.store.strings.intern_bytes(self.name);
        let mut source = ArgSet::default();
        let description = if message.has(of::DESCRIPTION) {
            cx.store
                .strings
                .intern_bytes(message.bytes(of::DESCRIPTION))
        } else {
            StringId::NULL
        };
        source.put(&mut cx.store, "description", ArgValue::Text(description));
        let [ugpu, gpu] = dimensions(cx, gpu);
        let of_counter = [ugpu, gpu, Dimension::Text("name", name)];
        let spec = TrackSpec::counter("gpu_counter", &of_counter).named(name);
        let spec = spec.with_source(source);
        let spec = match self.unit() {
            Some(unit) => spec.in_unit(&mut cx.store, &unit),
            None => spec,
        };
        Counter {
            track: cx.tracks.intern(&mut cx.store, spec),
            is_forwards: message.uint(of::VALUE_DIRECTION) == FORWARDS,
        }
    }

    /// Returns the unit, such as `Pixel/s`.
    fn unit(&self) -> Option<String> {
        use descriptor::gpu_counter_spec as of;
        let numerators = repeated(self.bytes, of::NUMERATOR_UNITS);
        let denominators = repeated(self.bytes, of::DENOMINATOR_UNITS);
        if numerators.is_empty() && denominators.is_empty() {
            return None;
        }
        let name = |unit: &u64| UNITS.get(*unit as usize).copied().unwrap_or("Unknown");
        let numerators: Vec<_> = numerators.iter().map(name).collect();
        let denominators = denominators.iter().map(name);
        let denominators: Vec<_> = denominators.filter(|name| !name.is_empty()).collect();
        let mut unit = numerators.join(":");
        if !denominators.is_empty() {
            unit.push('/');
            unit += &denominators.join(":");
        }
        Some(unit)
    }
}

/// The groups that a descriptor declares.
#[derive(Debug)]
struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    id: i32,
    name: StringId,
    description: StringId,
    counters: Vec<u64>,
}

impl Groups {
    fn read(cx: &mut Context, bytes: &[u8]) -> Self {
        use descriptor::gpu_counter_group_spec as of;
        /// The maximum number of groups.
        const MAX: usize = 1 << 10;
        let mut groups = Vec::new();
        for bytes in parts(bytes, descriptor::COUNTER_GROUPS).take(MAX) {
            let message = Message::<4>::read(bytes);
            if !message.has(of::GROUP_ID) {
                continue;
            }
            let mut text = |number| {
                if message.has(number) {
                    cx.store.strings.intern_bytes(message.bytes(number))
                } else {
                    StringId::NULL
                }
            };
            groups.push(Group {
                id: message.int(of::GROUP_ID) as i32,
                name: text(of::NAME),
                description: text(of::DESCRIPTION),
                counters: repeated(bytes, of::COUNTER_IDS),
            });
        }
        Self(groups)
    }

    /// Adds the groups that a counter names.
    fn add(&self, cx: &mut Context, spec: &Spec<'_>, track: u32) {
        use descriptor::gpu_counter_spec as of;
        let ids = repeated(spec.bytes, of::GROUPS);
        if ids.is_empty() {
            // Without a group it is unclassified.
            push(cx, 0, track, (StringId::NULL, StringId::NULL));
            return;
        }
        for id in ids {
            let id = id as i32;
            let known = self.0.iter().find(|group| group.id == id);
            let texts = known.map_or((StringId::NULL, StringId::NULL), |group| {
                (group.name, group.description)
            });
            push(cx, id, track, texts);
        }
    }

    /// Adds the counters that groups name.
    fn add_declared(&self, cx: &mut Context, counters: &FxHashMap<u32, Counter>) {
        for group in &self.0 {
            for counter in &group.counters {
                if let Some(counter) = counters.get(&(*counter as u32)) {
                    let texts = (group.name, group.description);
                    push(cx, group.id, counter.track, texts);
                }
            }
        }
    }
}

fn push(cx: &mut Context, group_id: i32, track_id: u32, texts: (StringId, StringId)) {
    cx.store.tables.gpu_counter_group.push(GpuCounterGroupRow {
        group_id,
        track_id,
        name: texts.0,
        description: texts.1,
    });
}

fn key(state: EventState<'_>, iid: u64) -> Key {
    (state.state.sequence, state.state.generation, iid)
}

/// Returns the submessages with this number.
fn parts(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    fields.filter_map(move |part: Field<'_>| {
        if part.number == number {
            part.as_bytes()
        } else {
            None
        }
    })
}
