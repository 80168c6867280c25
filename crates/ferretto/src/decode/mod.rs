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
use ferretto_format::track_event::{CounterValue as Encoded, EventKind, TrackEvent};
use ferretto_proto::fields::{interned_data, trace_packet};

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
        state.map_or(0, |state| state.defaults.track.unwrap_or(0))
    }

    /// Decodes the next packet: an event, a track descriptor, or neither. `None` if the packet is
    /// malformed.
    pub(crate) fn packet(&mut self, packet: &[u8], tracks: &mut Tracks) -> Option<Packet> {
        let (mut event, mut descriptor) = (None, None);
        let header = PacketHeader::read(packet, |part| match part.number {
            trace_packet::TRACK_EVENT => event = part.as_bytes(),
            trace_packet::TRACK_DESCRIPTOR => descriptor = part.as_bytes(),
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
    fn event(&mut self, time: u64, bytes: &[u8], tracks: &Tracks) -> Event {
        let encoded = TrackEvent::read(bytes);
        let table = interned_data::EVENT_CATEGORIES;
        let categories = encoded.categories();
        let name = encoded.name();
        let mut event = Event {
            time,
            kind: match encoded.kind() {
                Some(EventKind::Begin) => Kind::Begin,
                Some(EventKind::End) => Kind::End,
                Some(EventKind::Counter) => Kind::Counter,
                _ => Kind::Instant,
            },
            categories: categories
                .filter_map(|category| self.text(table, category))
                .collect(),
            name: name.and_then(|name| self.text(interned_data::EVENT_NAMES, name)),
            track: encoded.track.or(self.defaults.track).unwrap_or(0),
            arguments: encoded
                .annotations()
                .map(|bytes| value::argument(bytes, self))
                .collect(),
            flows: encoded.flows().collect(),
            terminating_flows: encoded.ending_flows().collect(),
            counter: None,
            extra_counters: Vec::new(),
            encoded: bytes.to_vec(),
        };
        let counter = encoded.counter;
        event.counter = counter.map(|value| self.total(event.track, value, tracks));
        let extra = encoded.extra_counters(&self.defaults);
        let extra = extra.into_iter().filter_map(|counter| {
            let track = counter.track.ok()?;
            Some((track, self.total(track, counter.value, tracks)))
        });
        event.extra_counters = extra.collect();
        event
    }

    /// Returns the value of a counter, given the value or its difference from the last one.
    fn total(&mut self, track: u64, value: Encoded, tracks: &Tracks) -> CounterValue {
        let description = tracks.get(track).map(|track| &track.kind);
        let Some(&TrackKind::Counter {
            is_incremental,
            multiplier,
            ..
        }) = description
        else {
            return shown(value);
        };
        let value = if is_incremental {
            let total = self.totals.entry(track).or_insert(Encoded::Integer(0));
            *total = total.plus(value);
            *total
        } else {
            value
        };
        shown(value.scaled(multiplier))
    }
}

fn shown(value: Encoded) -> CounterValue {
    match value {
        Encoded::Integer(value) => CounterValue::Integer(value),
        Encoded::Double(value) => CounterValue::Double(value),
    }
}
