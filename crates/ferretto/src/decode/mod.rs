//! Reads back the track events that this library writes.
//!
//! Small, for traces that the recorded process examines itself; traces in general are read by other
//! tools. Unknown fields are skipped.

mod state;
mod tracks;
mod value;

pub use tracks::{Track, TrackKind};
pub use value::Value;

use ferretto_format::budget::Budget;
use ferretto_format::sequence::{Fault, PacketHeader, SequenceReader};
use ferretto_proto::fields::{interned_data, trace_packet, track_event as field};
use ferretto_wire::{Field, Fields};

use self::state::State;
pub(crate) use self::tracks::Tracks;
pub use crate::track_event::CounterValue;

/// Memory for all that sequences leave for later packets, in bytes.
const MEMORY: usize = 1 << 30;

/// The kind of an event.
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

/// Reads the packets of sequences, one after the other.
///
/// Times stay on the clock by which they were recorded.
#[derive(Debug)]
pub(crate) struct EventReader {
    sequences: SequenceReader<State>,
}

impl Default for EventReader {
    fn default() -> Self {
        Self {
            sequences: SequenceReader::without_conversion(&Budget::new(MEMORY)),
        }
    }
}

/// A packet that was read.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The event in it.
    pub(crate) event: Option<Event>,
    /// The sequence it is of.
    pub(crate) sequence: u32,
    /// Packets are missing before it.
    pub(crate) is_after_loss: bool,
}

impl EventReader {
    /// Returns the track of the events of a sequence that name none.
    pub(crate) fn default_track(&mut self, sequence: u32) -> u64 {
        let state = self.sequences.state_mut(sequence);
        state.map_or(0, |state| state.default_track)
    }

    /// Takes the next packet: an event, a description of a track, or neither. `None` if it is not
    /// well-formed.
    pub(crate) fn packet(&mut self, packet: &[u8], tracks: &mut Tracks) -> Option<Packet> {
        let (mut event, mut descriptor) = (None, None);
        let header = PacketHeader::read(packet, |part| match part.number {
            trace_packet::TRACK_EVENT => event = part.as_bytes(),
            trace_packet::TRACK_DESCRIPTOR => descriptor = part.as_message(),
            _ => {}
        })?;
        if let Some(descriptor) = descriptor {
            tracks.describe(descriptor);
        }
        let event = match self.sequences.read(&header, &mut |_: Fault| {}) {
            Ok(Some(context)) => event.map(|event| {
                let time = context.time.and_then(Result::ok).unwrap_or(0);
                context.state.event(time, event, tracks)
            }),
            Ok(None) | Err(_) => None,
        };
        Some(Packet {
            event,
            sequence: header.sequence,
            // The first packet of a sequence may say that there was nothing before.
            is_after_loss: !header.loss.is_none() && !header.is_first,
        })
    }
}

impl State {
    fn event(&mut self, time: u64, encoded: &[u8], tracks: &Tracks) -> Event {
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
        event
    }

    /// Reads the name of an event and its fields.
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
