//! Reads back the track events that this library writes.
//!
//! Small, for what is traced and looked at in the same process; traces in general are read by other tools. Whatever is
//! not understood is passed over.

mod clock;
mod tracks;
mod value;

pub use tracks::{Track, TrackKind};
pub use value::Value;

use std::collections::HashMap;

use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_proto::fields::{
    interned_data, trace_packet, trace_packet_defaults, track_event as field, track_event_defaults,
};
use ferretto_wire::{Field, Fields};

use self::clock::Clocks;
pub(crate) use self::tracks::Tracks;
pub use crate::track_event::CounterValue;

/// The field that tells the number of an interned entry, and the one with its text, in all kinds of entries used here.
const IID: u32 = 1;
const TEXT: u32 = 2;

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    End,
    Instant,
    Counter,
}

/// A track event, with everything that was interned in its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Nanoseconds on the clock of the recording, usually since the machine was started.
    pub(crate) time: u64,
    pub(crate) kind: Kind,
    pub(crate) categories: Vec<String>,
    pub(crate) name: Option<String>,
    /// The track's UUID.
    pub(crate) track: u64,
    pub(crate) arguments: Vec<(String, Value)>,
    pub(crate) flows: Vec<u64>,
    pub(crate) terminating_flows: Vec<u64>,
    pub(crate) counter: Option<CounterValue>,
    /// Counters of other tracks that were set together with it.
    pub(crate) extra_counters: Vec<(u64, CounterValue)>,
    /// The TrackEvent as it was recorded.
    pub(crate) encoded: Vec<u8>,
}

/// The numbers of one kind of interned entries, and their texts.
type Interned = HashMap<(u32, u64), String>;

/// What has been read so far of one sequence of packets.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    interned: Interned,
    clocks: Clocks,
    default_track: u64,
    extra_counters: Vec<u64>,
    extra_double_counters: Vec<u64>,
    /// The state since the last reset is complete.
    is_valid: bool,
    /// The values of incremental counters.
    totals: HashMap<u64, i64>,
}

impl Sequence {
    /// The track of events that name none.
    pub(crate) fn default_track(&self) -> u64 {
        self.default_track
    }

    /// Takes the next packet of the sequence: an event, a description of a track, or neither.
    pub(crate) fn packet(&mut self, packet: &[u8], tracks: &mut Tracks) -> Option<Event> {
        let fields = || Fields::new(packet).map_while(Result::ok);
        let number = |wanted: u32| {
            let field = fields().find(|field| field.number == wanted);
            field.and_then(|field| field.as_u64())
        };
        let flags = number(trace_packet::SEQUENCE_FLAGS).unwrap_or(0);
        if number(trace_packet::PREVIOUS_PACKET_DROPPED).is_some() {
            self.is_valid = false;
        }
        if flags & INCREMENTAL_STATE_CLEARED != 0 {
            *self = Self {
                is_valid: true,
                ..Self::default()
            };
        }
        let time = number(trace_packet::TIMESTAMP);
        let clock = number(trace_packet::TIMESTAMP_CLOCK_ID);
        let mut event = None;
        for field in fields() {
            let Some(message) = field.as_message() else {
                continue;
            };
            match field.number {
                trace_packet::CLOCK_SNAPSHOT => self.clocks.snapshot(message),
                trace_packet::TRACE_PACKET_DEFAULTS => self.set_defaults(message),
                trace_packet::INTERNED_DATA => self.intern(message),
                trace_packet::TRACK_DESCRIPTOR => tracks.describe(message),
                trace_packet::TRACK_EVENT => event = field.as_bytes(),
                _ => {}
            }
        }
        // An incremental clock goes on with every packet.
        let time = time.map_or(0, |time| self.clocks.resolve(clock, time));
        if flags & NEEDS_INCREMENTAL_STATE != 0 && !self.is_valid {
            return None;
        }
        self.event(time, event?, tracks)
    }

    fn set_defaults(&mut self, defaults: Fields<'_>) {
        self.extra_counters.clear();
        self.extra_double_counters.clear();
        for field in defaults.map_while(Result::ok) {
            match (field.number, field.as_message()) {
                (trace_packet_defaults::TIMESTAMP_CLOCK_ID, _) => {
                    self.clocks.set_default(field.as_u64().unwrap_or(0));
                }
                (trace_packet_defaults::TRACK_EVENT_DEFAULTS, Some(defaults)) => {
                    for field in defaults.map_while(Result::ok) {
                        self.set_event_default(&field);
                    }
                }
                _ => {}
            }
        }
    }

    fn set_event_default(&mut self, field: &Field<'_>) {
        match field.number {
            track_event_defaults::TRACK_UUID => {
                self.default_track = field.as_u64().unwrap_or(0);
            }
            track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS => {
                self.extra_counters.extend(field.as_varints());
            }
            track_event_defaults::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {
                self.extra_double_counters.extend(field.as_varints());
            }
            _ => {}
        }
    }

    fn intern(&mut self, data: Fields<'_>) {
        for entry in data.map_while(Result::ok) {
            let Some(bytes) = entry.as_bytes() else {
                continue;
            };
            let iid = Fields::find(IID, bytes).and_then(|field| field.as_u64());
            let text = Fields::find(TEXT, bytes).and_then(|field| field.as_str_lossy());
            if let (Some(iid), Some(text)) = (iid, text) {
                self.interned.insert((entry.number, iid), text.into_owned());
            }
        }
    }

    fn event(&mut self, time: u64, encoded: &[u8], tracks: &Tracks) -> Option<Event> {
        let mut event = Event {
            time,
            kind: Kind::Instant,
            categories: Vec::new(),
            name: None,
            track: self.default_track,
            arguments: Vec::new(),
            flows: Vec::new(),
            terminating_flows: Vec::new(),
            counter: None,
            extra_counters: Vec::new(),
            encoded: encoded.to_vec(),
        };
        let mut kind = 0;
        let mut extra = Extra::default();
        for item in Fields::new(encoded).map_while(Result::ok) {
            match item.number {
                field::TYPE => kind = item.as_u64().unwrap_or(0),
                field::TRACK_UUID => event.track = item.as_u64().unwrap_or(0),
                field::COUNTER_VALUE => event.counter = item.as_i64().map(CounterValue::Integer),
                field::DOUBLE_COUNTER_VALUE => {
                    event.counter = item.as_f64().map(CounterValue::Double);
                }
                _ => {
                    self.describe(&mut event, &item);
                    extra.add(&item);
                }
            }
        }
        event.kind = match kind {
            1 => Kind::Begin,
            2 => Kind::End,
            4 => Kind::Counter,
            _ => Kind::Instant,
        };
        if let Some(value) = event.counter {
            event.counter = Some(self.total(event.track, value, tracks));
        }
        event.extra_counters = self.pair(extra, tracks);
        Some(event)
    }

    /// What an event is called and what is attached to it.
    fn describe(&self, event: &mut Event, item: &Field<'_>) {
        let text = || item.as_str_lossy().map(|text| text.into_owned());
        let fixed = || fixed64s(item);
        match item.number {
            field::CATEGORY_IIDS => {
                let categories = item
                    .as_varints()
                    .filter_map(|iid| self.text(interned_data::EVENT_CATEGORIES, iid));
                event.categories.extend(categories);
            }
            field::CATEGORIES => event.categories.extend(text()),
            field::NAME_IID => {
                let iid = item.as_u64().unwrap_or(0);
                event.name = self.text(interned_data::EVENT_NAMES, iid);
            }
            field::NAME => event.name = text(),
            field::DEBUG_ANNOTATIONS => {
                if let Some(bytes) = item.as_bytes() {
                    event
                        .arguments
                        .push(value::argument(bytes, &|table, iid| self.text(table, iid)));
                }
            }
            field::FLOW_IDS => event.flows.extend(fixed()),
            field::TERMINATING_FLOW_IDS => event.terminating_flows.extend(fixed()),
            _ => {}
        }
    }

    fn text(&self, table: u32, iid: u64) -> Option<String> {
        self.interned.get(&(table, iid)).cloned()
    }

    /// The value of a counter, given that or the difference to the one before.
    fn total(&mut self, track: u64, value: CounterValue, tracks: &Tracks) -> CounterValue {
        let description = tracks.get(track).map(|track| &track.kind);
        let Some(&TrackKind::Counter {
            is_incremental,
            multiplier,
            ..
        }) = description
        else {
            return value;
        };
        match value {
            CounterValue::Integer(value) => {
                let total = self.totals.entry(track).or_insert(0);
                let before = if is_incremental { *total } else { 0 };
                *total = before.wrapping_add(value);
                CounterValue::Integer(total.wrapping_mul(multiplier))
            }
            CounterValue::Double(value) => CounterValue::Double(value * multiplier as f64),
        }
    }

    /// The counters set together with an event: by its own list of tracks or that of the sequence.
    fn pair(&mut self, extra: Extra, tracks: &Tracks) -> Vec<(u64, CounterValue)> {
        let own = |own: Vec<u64>, default: &Vec<u64>| {
            if own.is_empty() { default.clone() } else { own }
        };
        let integers = own(extra.tracks, &self.extra_counters);
        let doubles = own(extra.double_tracks, &self.extra_double_counters);
        let integers = integers
            .into_iter()
            .zip(extra.values.into_iter().map(CounterValue::Integer));
        let doubles = doubles
            .into_iter()
            .zip(extra.double_values.into_iter().map(CounterValue::Double));
        integers
            .chain(doubles)
            .map(|(track, value)| (track, self.total(track, value, tracks)))
            .collect()
    }
}

/// Tracks and values of the counters set together with an event.
#[derive(Debug, Default)]
struct Extra {
    tracks: Vec<u64>,
    values: Vec<i64>,
    double_tracks: Vec<u64>,
    double_values: Vec<f64>,
}

impl Extra {
    fn add(&mut self, item: &Field<'_>) {
        match item.number {
            field::EXTRA_COUNTER_TRACK_UUIDS => self.tracks.extend(item.as_varints()),
            field::EXTRA_COUNTER_VALUES => {
                self.values.extend(item.as_varints().map(u64::cast_signed));
            }
            field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {
                self.double_tracks.extend(item.as_varints());
            }
            field::EXTRA_DOUBLE_COUNTER_VALUES => {
                self.double_values
                    .extend(fixed64s(item).into_iter().map(f64::from_bits));
            }
            _ => {}
        }
    }
}

/// The elements of a repeated field of eight bytes each, whether packed or a single one.
fn fixed64s(field: &Field<'_>) -> Vec<u64> {
    match field.as_bytes() {
        Some(bytes) => {
            let (whole, _) = bytes.as_chunks::<8>();
            whole.iter().copied().map(u64::from_le_bytes).collect()
        }
        None => field.as_u64().into_iter().collect(),
    }
}
