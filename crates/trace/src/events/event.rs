//! One track event.

use ferretto_proto::fields::track_event as field;
use ferretto_wire::{Field, Fields};

use super::problem::{Problem, Problems};
use super::state::{MAX_EXTRA, State, text};
use super::value::{self, Value};

/// The maximum number of categories of an event. Others are left out.
const MAX_CATEGORIES: usize = 1 << 8;
/// The maximum number of flows of an event. Others are left out.
const MAX_FLOWS: usize = 1 << 16;

/// Tables of `InternedData`.
const CATEGORIES: u32 = 1;
const NAMES: u32 = 2;
const CORRELATION_IDS: u32 = 43;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A slice begins.
    Begin,
    /// The innermost open slice ends.
    End,
    /// An event without duration.
    Instant,
    /// A counter has a value.
    Counter,
    /// The track enters a state; without a name, it leaves its state.
    State,
    /// An event of an old writer, with the letter of its kind.
    Legacy(char),
}

/// A value of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
}

/// The correlation of an event with other events.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Correlation {
    /// No correlation.
    #[default]
    None,
    /// Correlated with events that have the same number.
    Number(u64),
    /// Correlated with events that have the same text.
    Text(String),
}

/// A track event, with all references to other packets resolved.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The timestamp, in nanoseconds of boot time. `None` if the clock is unknown.
    pub time: Option<u64>,
    /// The id of the sequence.
    pub sequence: u32,
    /// The kind of event.
    pub kind: Kind,
    /// The uuid of its track; 0 is the track of the whole trace.
    pub track: u64,
    /// The categories.
    pub categories: Vec<String>,
    /// The name, or the value of a state.
    pub name: Option<String>,
    /// The arguments, in the order of the packet.
    pub arguments: Vec<(String, Value)>,
    /// The ids of flows that continue.
    pub flows: Vec<u64>,
    /// The ids of flows that end.
    pub ending_flows: Vec<u64>,
    /// The absolute value of a counter.
    pub value: Option<Number>,
    /// The values of extra counters, by track.
    pub extra_values: Vec<(u64, Number)>,
    /// The correlation with other events.
    pub correlation: Correlation,
}

impl Event {
    /// Returns the memory of the event in a growing list.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.categories.iter().chain(&self.name);
        let texts: usize = texts.map(|text| text.len() + size_of::<String>()).sum();
        let arguments = self.arguments.iter();
        let arguments: usize = arguments
            .map(|(name, value)| name.len() + size_of::<String>() + value.bytes())
            .sum();
        let lists = 8 * (self.flows.len() + self.ending_flows.len() + 3 * self.extra_values.len());
        2 * size_of::<Self>() + texts + arguments + lists
    }
}

/// A timestamp in the old encoding, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) enum OldTime {
    Delta(i64),
    Absolute(i64),
}

/// A track event before the kind of its track is known.
pub(super) struct Parsed {
    pub(super) event: Event,
    /// True if the event or the defaults of its sequence contain the uuid of its track.
    pub(super) has_track: bool,
    pub(super) old_time: Option<OldTime>,
    extras: Option<Box<Extras>>,
}

/// Extra counters: the tracks and the values of an event.
#[derive(Default)]
struct Extras {
    tracks: Vec<u64>,
    values: Vec<i64>,
    double_tracks: Vec<u64>,
    double_values: Vec<f64>,
}

impl Extras {
    /// Reads a field of a `TrackEvent`.
    fn read(&mut self, part: &Field<'_>) {
        match part.number {
            field::EXTRA_COUNTER_TRACK_UUIDS if self.tracks.len() < MAX_EXTRA => {
                self.tracks.extend(part.as_varints().take(MAX_EXTRA));
            }
            field::EXTRA_COUNTER_VALUES if self.values.len() < MAX_EXTRA => {
                let values = part.as_varints().map(|value| value as i64);
                self.values.extend(values.take(MAX_EXTRA));
            }
            field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS if self.double_tracks.len() < MAX_EXTRA => {
                self.double_tracks.extend(part.as_varints().take(MAX_EXTRA));
            }
            field::EXTRA_DOUBLE_COUNTER_VALUES if self.double_values.len() < MAX_EXTRA => {
                self.double_values.extend(part.as_f64());
            }
            _ => {}
        }
    }
}

/// Parses a `TrackEvent`. Returns `None` if it has no type.
pub(super) fn parse(
    bytes: &[u8],
    state: &State,
    number: u32,
    problems: &mut Problems,
) -> Option<Parsed> {
    state.begin_event();
    let mut kind = 0;
    let mut phase = None;
    let mut track = None;
    let mut old_time = None;
    let mut extras = None;
    let (mut old_flows, mut old_ending_flows) = (Vec::new(), Vec::new());
    let mut event = Event {
        time: None,
        sequence: number,
        kind: Kind::Instant,
        track: 0,
        categories: Vec::new(),
        name: None,
        arguments: Vec::new(),
        flows: Vec::new(),
        ending_flows: Vec::new(),
        value: None,
        extra_values: Vec::new(),
        correlation: Correlation::None,
    };
    for part in Fields::new(bytes).map_while(Result::ok) {
        let look_up = |table, problems: &mut Problems| {
            let iid = part.as_u64()?;
            state.text(table, iid, problems)
        };
        let inner = part.as_bytes().unwrap_or_default();
        match part.number {
            field::TYPE => kind = part.as_u64().unwrap_or(0),
            field::TRACK_UUID => track = part.as_u64(),
            field::CATEGORY_IIDS => {
                for iid in part.as_varints().take(MAX_CATEGORIES) {
                    let category = state.text(CATEGORIES, iid, problems);
                    event.categories.extend(category);
                }
            }
            field::CATEGORIES if event.categories.len() < MAX_CATEGORIES => {
                event.categories.push(text(inner));
            }
            field::NAME => event.name = Some(text(inner)),
            field::NAME_IID => event.name = look_up(NAMES, problems),
            field::DEBUG_ANNOTATIONS => {
                let argument = value::argument(inner, state, problems);
                event.arguments.extend(argument);
            }
            field::COUNTER_VALUE => event.value = part.as_i64().map(Number::Integer),
            field::DOUBLE_COUNTER_VALUE => {
                // The viewer prefers the integer.
                let value = part.as_f64().map(Number::Double);
                event.value = event.value.or(value);
            }
            field::EXTRA_COUNTER_TRACK_UUIDS
            | field::EXTRA_COUNTER_VALUES
            | field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS
            | field::EXTRA_DOUBLE_COUNTER_VALUES => {
                let extras: &mut Box<Extras> = extras.get_or_insert_default();
                extras.read(&part);
            }
            field::FLOW_IDS if event.flows.len() < MAX_FLOWS => event.flows.extend(part.as_u64()),
            field::TERMINATING_FLOW_IDS if event.ending_flows.len() < MAX_FLOWS => {
                event.ending_flows.extend(part.as_u64());
            }
            field::FLOW_IDS_OLD if old_flows.len() < MAX_FLOWS => {
                old_flows.extend(part.as_varints().take(MAX_FLOWS));
            }
            field::TERMINATING_FLOW_IDS_OLD if old_ending_flows.len() < MAX_FLOWS => {
                old_ending_flows.extend(part.as_varints().take(MAX_FLOWS));
            }
            field::CORRELATION_ID => {
                event.correlation = part.as_u64().map_or(Correlation::None, Correlation::Number);
            }
            field::CORRELATION_ID_STR => event.correlation = Correlation::Text(text(inner)),
            field::CORRELATION_ID_STR_IID => {
                let id = look_up(CORRELATION_IDS, problems);
                event.correlation = id.map_or(Correlation::None, Correlation::Text);
            }
            field::TIMESTAMP_DELTA_US => old_time = part.as_i64().map(OldTime::Delta),
            field::TIMESTAMP_ABSOLUTE_US => old_time = part.as_i64().map(OldTime::Absolute),
            field::LEGACY_EVENT => phase = Fields::find(field::legacy_event::PHASE, inner),
            _ => {}
        }
    }
    let phase = phase.and_then(|phase| char::from_u32(phase.as_u32()?));
    event.kind = kind_of(kind, phase)?;
    if event.flows.is_empty() {
        event.flows = old_flows;
    }
    if event.ending_flows.is_empty() {
        event.ending_flows = old_ending_flows;
    }
    event.track = track.or(state.incremental.track).unwrap_or(0);
    Some(Parsed {
        event,
        has_track: track.is_some() || state.incremental.track.is_some(),
        old_time,
        extras,
    })
}

/// Returns the kind of an event with this type, and this phase if it is of an old writer.
pub(crate) fn kind_of(number: u64, phase: Option<char>) -> Option<Kind> {
    match (number, phase) {
        (1, _) => Some(Kind::Begin),
        (2, _) => Some(Kind::End),
        (3, _) => Some(Kind::Instant),
        (4, _) => Some(Kind::Counter),
        (5, _) => Some(Kind::State),
        (_, Some('B')) => Some(Kind::Begin),
        (_, Some('E')) => Some(Kind::End),
        (_, Some('I' | 'i')) => Some(Kind::Instant),
        (_, Some(phase)) => Some(Kind::Legacy(phase)),
        (_, None) => None,
    }
}

impl Parsed {
    /// Adds up incremental counters, and resolves extra counters.
    pub(super) fn count(
        &mut self,
        state: &mut State,
        is_counter: impl Fn(u64) -> Option<bool>,
        problems: &mut Problems,
    ) {
        let event = &mut self.event;
        if event.kind == Kind::Counter {
            let counter = is_counter(event.track);
            if !self.has_track || event.track == 0 {
                problems.add(Problem::CounterWithoutTrack);
            } else if event.value.is_none() {
                problems.add(Problem::CounterWithoutValue);
            } else if counter.is_none() {
                problems.add(Problem::NotACounter);
            }
            if let (Some(true), Some(Number::Integer(value))) = (counter, event.value) {
                event.value = Some(Number::Integer(state.sum(event.track, value)));
            }
        }
        let Some(extras) = self.extras.take() else {
            return;
        };
        let tracks = first(extras.tracks, &state.incremental.extra_tracks);
        let double_tracks = first(extras.double_tracks, &state.incremental.extra_double_tracks);
        let values = extras.values.into_iter().map(Number::Integer);
        let doubles = extras.double_values.into_iter().map(Number::Double);
        let values = values.enumerate().map(|(n, value)| (tracks.get(n), value));
        let doubles = doubles
            .enumerate()
            .map(|(n, value)| (double_tracks.get(n), value));
        for (place, (track, value)) in values.chain(doubles).enumerate() {
            let track = track.copied().filter(|track| *track != 0);
            let problem = match track.map(&is_counter) {
                _ if place >= 8 => Problem::TooManyExtraCounters,
                None => Problem::ExtraCounterWithoutTrack,
                Some(None) => Problem::NotACounter,
                Some(Some(is_incremental)) => {
                    let track = track.unwrap_or(0);
                    let value = match value {
                        Number::Integer(value) if is_incremental => {
                            Number::Integer(state.sum(track, value))
                        }
                        value => value,
                    };
                    event.extra_values.push((track, value));
                    continue;
                }
            };
            problems.add(problem);
        }
    }
}

fn first(own: Vec<u64>, defaults: &[u64]) -> Vec<u64> {
    match own.is_empty() {
        true => defaults.to_vec(),
        false => own,
    }
}
