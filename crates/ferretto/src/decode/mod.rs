//! A reader of the track events that this library writes.
//!
//! Small, for traces that the recording process itself examines. Unknown fields are skipped.

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

/// The memory limit for the state of all sequences, in bytes.
const MEMORY: usize = 1 << 30;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    End,
    Instant,
    Counter,
}

/// A track event with interned data resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// The time in nanoseconds on the clock of the recording, usually since boot.
    pub(crate) time: u64,
    pub(crate) kind: Kind,
    pub(crate) categories: Vec<String>,
    pub(crate) name: Option<String>,
    /// The track's uuid.
    pub(crate) track: u64,
    pub(crate) arguments: Vec<(String, Value)>,
    pub(crate) flows: Vec<u64>,
    pub(crate) terminating_flows: Vec<u64>,
    pub(crate) counter: Option<CounterValue>,
    /// The values of other counters that the event sets.
    pub(crate) extra_counters: Vec<(u64, CounterValue)>,
    /// The encoded TrackEvent.
    pub(crate) encoded: Vec<u8>,
}

/// Decodes the packets of any number of sequences.
///
/// Times stay on the clock of the recording.
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

/// A decoded packet.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The event in the packet, if any.
    pub(crate) event: Option<Event>,
    /// The sequence of the packet.
    pub(crate) sequence: u32,
    /// Set if packets before this one are missing.
    pub(crate) is_after_loss: bool,
}

impl EventReader {
    /// Returns the default track of a sequence.
    pub(crate) fn default_track(&mut self, sequence: u32) -> u64 {
        let state = self.sequences.state_mut(sequence);
        state.map_or(0, |state| state.default_track)
    }

    /// Decodes the next packet: an event, a track descriptor, or neither. `None` if the packet is
    /// malformed.
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
            // The first packet of a sequence may state that nothing precedes it.
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

    /// Decodes the name and the fields of an event.
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

    /// Returns the value of a counter, given the value or its difference from the last one.
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

    /// Returns the counters that an event sets, on the tracks that the event or the sequence lists.
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

/// Tracks and values of the counters that an event sets.
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

/// Returns the elements of a repeated 64-bit field, whether packed or not.
fn fixed64s(field: &Field<'_>) -> Vec<u64> {
    match field.as_bytes() {
        Some(bytes) => {
            let (whole, _) = bytes.as_chunks::<8>();
            whole.iter().copied().map(u64::from_le_bytes).collect()
        }
        None => field.as_u64().into_iter().collect(),
    }
}
