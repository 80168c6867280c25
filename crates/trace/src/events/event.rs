//! One track event.

use ferretto_format::track_event::{CounterValue as Number, EventKind as Kind, Text, TrackEvent};
use ferretto_proto::fields::{interned_data, track_event as field};

use super::problem::{Problem, Problems};
use super::state::State;
use super::tracks::{Counter, Tracks};
use super::value::{self, Value};

/// The maximum number of categories of an event. Others are left out.
const MAX_CATEGORIES: usize = 1 << 8;
/// The maximum number of extra counters that viewers show.
const MAX_EXTRA: usize = 8;

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
    /// The duration of a whole slice of an old writer, in nanoseconds.
    pub duration: Option<u64>,
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
    /// The absolute value of a counter, in its unit.
    pub value: Option<Number>,
    /// The absolute values of extra counters in their units, by track.
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

/// Resolves the references of a `TrackEvent`. Its time, value and extra counters are added later.
/// Returns `None` if it has no type.
pub(super) fn resolve(
    encoded: &TrackEvent<'_>,
    state: &State,
    sequence: u32,
    problems: &mut Problems,
) -> Option<Event> {
    state.begin_event();
    let kind = encoded.kind()?;
    let mut text = |table, text| state.resolve(table, text, problems);
    let categories = encoded.categories().take(MAX_CATEGORIES);
    let categories =
        categories.filter_map(|category| text(interned_data::EVENT_CATEGORIES, category));
    let mut event = Event {
        time: None,
        duration: encoded.duration(),
        sequence,
        kind,
        track: encoded.track.or(state.event.defaults.track).unwrap_or(0),
        categories: categories.collect(),
        name: None,
        arguments: Vec::new(),
        flows: Vec::new(),
        ending_flows: Vec::new(),
        value: encoded.counter,
        extra_values: Vec::new(),
        correlation: Correlation::None,
    };
    let name = encoded.name();
    event.name = name.and_then(|name| text(interned_data::EVENT_NAMES, name));
    if encoded.has_annotations {
        let annotations = encoded.annotations();
        let arguments = annotations.filter_map(|bytes| value::argument(bytes, state, problems));
        event.arguments = arguments.collect();
    }
    if encoded.has_flows {
        event.flows = encoded.flows().collect();
        event.ending_flows = encoded.ending_flows().collect();
    }
    if encoded.has_other_fields {
        event.correlation = correlation(encoded, state, problems);
    }
    Some(event)
}

fn correlation(encoded: &TrackEvent<'_>, state: &State, problems: &mut Problems) -> Correlation {
    let mut correlation = Correlation::None;
    for part in encoded.fields() {
        let text = match part.number {
            field::CORRELATION_ID => {
                correlation = part.as_u64().map_or(Correlation::None, Correlation::Number);
                continue;
            }
            field::CORRELATION_ID_STR => part.as_bytes().map(Text::Literal),
            field::CORRELATION_ID_STR_IID => part.as_u64().map(Text::Interned),
            _ => continue,
        };
        let table = interned_data::CORRELATION_ID_STR;
        let text = text.and_then(|text| state.resolve(table, text, problems));
        correlation = text.map_or(Correlation::None, Correlation::Text);
    }
    correlation
}

impl Event {
    /// Resolves the values of counters: adds up differences, and multiplies by the unit.
    pub(super) fn count(
        &mut self,
        encoded: &TrackEvent<'_>,
        state: &mut State,
        tracks: &Tracks,
        problems: &mut Problems,
    ) {
        let resolve = |state: &mut State, track, counter: &Counter, value| {
            let value = if counter.is_incremental {
                state.sum(track, value)
            } else {
                value
            };
            value.scaled(counter.multiplier)
        };
        if self.kind == Kind::Counter {
            let counter = tracks.counter(self.track);
            if self.track == 0 {
                problems.add(Problem::CounterWithoutTrack);
            } else if self.value.is_none() {
                problems.add(Problem::CounterWithoutValue);
            } else if counter.is_none() {
                problems.add(Problem::NotACounter);
            }
            if let (Some(counter), Some(value)) = (counter, self.value) {
                self.value = Some(resolve(state, self.track, counter, value));
            }
        }
        let extra = encoded.extra_counters(&state.event.defaults);
        for (index, extra) in extra.into_iter().enumerate() {
            let problem = if index >= MAX_EXTRA {
                Problem::TooManyExtraCounters
            } else if let Ok(track) = extra.track {
                if let Some(counter) = tracks.counter(track) {
                    let value = resolve(state, track, counter, extra.value);
                    self.extra_values.push((track, value));
                    continue;
                }
                Problem::NotACounter
            } else {
                Problem::ExtraCounterWithoutTrack
            };
            problems.add(problem);
        }
    }
}
