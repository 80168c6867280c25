//! Track events: their kinds, names, counters, flows, arguments and times.
//!
//! [`TrackEvent::read`] reads an event in one pass. The parts that few events have are read from
//! the event when they are asked for. [`EventState`] is the part of a sequence's state that events
//! refer to: the [`EventDefaults`], and the base of the [`RelativeTimes`] of old writers. The rules
//! are those of upstream's trace processor.

mod annotation;
mod counters;
mod state;
mod times;

use std::hash::{Hash, Hasher};

use ferretto_proto::fields::track_event::{self as field, legacy_event};
use ferretto_proto::views::track_event::LegacyEventView;
use ferretto_proto::views::track_event::r#type as event_type;
use ferretto_wire::{Field, Fields, Value};

pub use self::annotation::{Annotation, AnnotationValue, NestedValue, Scalar};
pub use self::counters::{CounterValue, ExtraCounter, NoTrack};
pub use self::state::{EventDefaults, EventState, TimeFault};
pub use self::times::{EventTimes, MissingBase, RelativeTimes};

/// The extension of `TrackEvent` with the ids of work of GPUs.
pub const GPU_CORRELATION: u32 = 3000;

/// The maximum number of flows, or of categories, of an event. Others are left out.
const MAX_LIST: usize = 1 << 12;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
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

impl EventKind {
    /// Returns true if a slice begins.
    #[inline]
    pub fn begins_slice(self) -> bool {
        matches!(self, Self::Begin | Self::Legacy('b' | 'S'))
    }

    /// Returns true if a slice ends.
    #[inline]
    pub fn ends_slice(self) -> bool {
        matches!(self, Self::End | Self::Legacy('e' | 'F'))
    }

    /// Returns true if the event is a whole slice, which may have a duration.
    #[inline]
    pub fn is_complete_slice(self) -> bool {
        self == Self::Legacy('X')
    }

    /// Returns true if the event has no duration.
    #[inline]
    pub fn is_instant(self) -> bool {
        matches!(self, Self::Instant | Self::Legacy('R' | 'n' | 'T' | 'p'))
    }
}

/// The track of a slice or state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventTrack {
    /// The track with a uuid.
    Uuid(u64),
    /// The track of the thread that writes a sequence.
    Sequence(u32),
    /// The track of the events with an id, of old writers.
    Id(u64),
}

impl Hash for EventTrack {
    /// Hashes one number, as readers look up the track of each event.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(match self {
            Self::Uuid(uuid) => *uuid,
            Self::Sequence(sequence) => u64::from(*sequence) ^ 1 << 62,
            Self::Id(id) => id ^ 1 << 63,
        });
    }
}

/// A text in an event, or the iid of an interned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'a> {
    /// The iid of a text. The kind of text decides in which table it is.
    Interned(u64),
    /// The text itself.
    Literal(&'a [u8]),
}

impl<'a> Text<'a> {
    /// Returns the text of two fields, of which an iid takes precedence.
    #[inline]
    fn of(iid: Option<u64>, literal: Option<&'a [u8]>) -> Option<Self> {
        match (iid, literal) {
            (None | Some(0), Some(literal)) => Some(Self::Literal(literal)),
            (Some(iid), _) => Some(Self::Interned(iid)),
            (None, None) => None,
        }
    }
}

/// The common fields of a `TrackEvent`, and flags for the others.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrackEvent<'a> {
    /// The encoded event.
    pub bytes: &'a [u8],
    /// The field `type`, a value of `views::track_event::type`.
    pub event_type: i32,
    /// The uuid of its track.
    pub track: Option<u64>,
    /// The iid of its name; 0 is none.
    pub name_iid: u64,
    /// Its name.
    pub name: Option<&'a [u8]>,
    /// The iid of its last interned category.
    pub category_iid: u64,
    /// Its last category that is not interned.
    pub category: Option<&'a [u8]>,
    /// The number of its categories.
    pub categories: u32,
    /// The encoded `LegacyEvent`.
    pub legacy: Option<&'a [u8]>,
    /// The value of a counter. The integer takes precedence.
    pub counter: Option<CounterValue>,
    /// Set if it has ids of flows.
    pub has_flows: bool,
    /// Set if it has values of extra counters.
    pub has_extra_counters: bool,
    /// Set if it has a callstack.
    pub has_callstack: bool,
    /// Set if it has times in the encoding of old writers.
    pub has_relative_times: bool,
    /// Set if it has debug annotations.
    pub has_annotations: bool,
    /// Set if it has ids of work of GPUs.
    pub has_gpu_work: bool,
    /// Set if it has other fields.
    pub has_other_fields: bool,
}

impl<'a> TrackEvent<'a> {
    /// Reads an event up to the first malformed field.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Self {
        let mut event = Self {
            bytes,
            ..Self::default()
        };
        Fields::walk(bytes, |part| {
            let number = || part.as_u64().unwrap_or(0);
            match part.number {
                field::TYPE => event.event_type = number() as i32,
                field::TRACK_UUID => event.track = part.as_u64(),
                field::NAME_IID => event.name_iid = number(),
                field::NAME => event.name = part.as_bytes(),
                field::CATEGORY_IIDS => {
                    for iid in part.as_varints() {
                        event.category_iid = iid;
                        event.categories = event.categories.saturating_add(1);
                    }
                }
                field::CATEGORIES => {
                    event.category = part.as_bytes();
                    event.categories = event.categories.saturating_add(1);
                }
                field::LEGACY_EVENT => event.legacy = part.as_bytes(),
                field::COUNTER_VALUE => {
                    event.counter = part.as_i64().map(CounterValue::Integer).or(event.counter);
                }
                field::DOUBLE_COUNTER_VALUE => match event.counter {
                    Some(CounterValue::Integer(_)) => {}
                    _ => event.counter = part.as_f64().map(CounterValue::Double),
                },
                field::FLOW_IDS
                | field::FLOW_IDS_OLD
                | field::TERMINATING_FLOW_IDS
                | field::TERMINATING_FLOW_IDS_OLD => event.has_flows = true,
                field::EXTRA_COUNTER_VALUES | field::EXTRA_DOUBLE_COUNTER_VALUES => {
                    event.has_extra_counters = true;
                }
                field::EXTRA_COUNTER_TRACK_UUIDS
                | field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS
                | field::CALLSTACK_WEIGHT => {}
                field::CALLSTACK | field::CALLSTACK_IID => event.has_callstack = true,
                number if is_relative_time(number) => event.has_relative_times = true,
                field::DEBUG_ANNOTATIONS => event.has_annotations = true,
                number => {
                    event.has_other_fields = true;
                    event.has_gpu_work |= number == GPU_CORRELATION;
                }
            }
        });
        event
    }

    /// Returns all fields.
    #[inline]
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        Fields::new(self.bytes).map_while(Result::ok)
    }

    /// Returns the last field with a number.
    pub fn find(&self, number: u32) -> Option<Field<'a>> {
        self.fields().filter(|field| field.number == number).last()
    }

    /// Returns true if it has values of counters beside its own: extra counters, or the CPU time or
    /// instructions of the thread.
    pub fn has_counters(&self) -> bool {
        let is_of_thread = |part: Field<'_>| {
            is_relative_time(part.number)
                && !matches!(
                    part.number,
                    field::TIMESTAMP_DELTA_US | field::TIMESTAMP_ABSOLUTE_US
                )
        };
        self.has_extra_counters || (self.has_relative_times && self.fields().any(is_of_thread))
    }

    /// Returns the part of old writers.
    #[inline]
    pub fn legacy(&self) -> Option<LegacyEventView<'a>> {
        self.legacy.map(LegacyEventView::read)
    }

    /// Returns the kind of the event; `None` if it has neither a known type nor a phase.
    #[inline]
    pub fn kind(&self) -> Option<EventKind> {
        self.kind_with(phase_of(self.legacy))
    }

    /// Returns the kind of the event, given the phase of its legacy part. The phase takes
    /// precedence over the type.
    #[inline]
    fn kind_with(&self, phase: Option<u8>) -> Option<EventKind> {
        let kind = match (self.event_type, phase) {
            (event_type::TYPE_COUNTER, _) => EventKind::Counter,
            (event_type::TYPE_STATE, _) => EventKind::State,
            (_, Some(b'B')) => EventKind::Begin,
            (_, Some(b'E')) => EventKind::End,
            (_, Some(b'I' | b'i')) => EventKind::Instant,
            (_, Some(phase)) => EventKind::Legacy(phase.into()),
            (event_type::TYPE_SLICE_BEGIN, None) => EventKind::Begin,
            (event_type::TYPE_SLICE_END, None) => EventKind::End,
            (event_type::TYPE_INSTANT, None) => EventKind::Instant,
            _ => return None,
        };
        Some(kind)
    }

    /// Returns the track of the event in its sequence.
    pub fn track(&self, defaults: &EventDefaults, sequence: u32) -> EventTrack {
        if let Some(legacy) = self.legacy()
            && let Some(b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F') = legacy_phase(&legacy)
        {
            let ids = [legacy.unscoped_id, legacy.global_id, legacy.local_id];
            if let Some(id) = ids.into_iter().flatten().next() {
                return EventTrack::Id(id);
            }
        }
        match self.track.or(defaults.track) {
            None | Some(0) => EventTrack::Sequence(sequence),
            Some(uuid) => EventTrack::Uuid(uuid),
        }
    }

    /// Returns the duration of a complete event of old writers, in nanoseconds.
    pub fn duration(&self) -> Option<u64> {
        let legacy = self.legacy()?;
        let is_complete = legacy_phase(&legacy) == Some(b'X');
        let microseconds = legacy.duration_us.unwrap_or(0).max(0).cast_unsigned();
        is_complete.then(|| microseconds.saturating_mul(1000))
    }

    /// Returns the name, with that of the legacy part.
    pub fn name(&self) -> Option<Text<'a>> {
        let old_iid = || {
            self.legacy()
                .and_then(|legacy| legacy.name_iid)
                .unwrap_or(0)
        };
        let iid = match (self.name_iid, self.legacy) {
            (0, Some(_)) => old_iid(),
            (iid, _) => iid,
        };
        Text::of(Some(iid).filter(|iid| *iid != 0), self.name)
    }

    /// Returns the categories: the interned ones come first.
    pub fn categories(&self) -> impl Iterator<Item = Text<'a>> + use<'a> {
        let of = |number| {
            let fields = self.fields();
            fields.filter(move |part| part.number == number)
        };
        let iids = of(field::CATEGORY_IIDS).flat_map(|part| part.as_varints());
        let texts = of(field::CATEGORIES).filter_map(|part| part.as_bytes());
        let all = iids.map(Text::Interned).chain(texts.map(Text::Literal));
        all.take(MAX_LIST.min(self.categories as usize))
    }

    /// Returns the encoded debug annotations.
    pub fn annotations(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let fields = self.fields();
        let fields = fields.filter(|part| part.number == field::DEBUG_ANNOTATIONS);
        fields.filter_map(|part| part.as_bytes())
    }

    /// Returns the ids of the flows that continue.
    pub fn flows(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.flows_of(field::FLOW_IDS, field::FLOW_IDS_OLD)
    }

    /// Returns the ids of the flows that end.
    pub fn ending_flows(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.flows_of(field::TERMINATING_FLOW_IDS, field::TERMINATING_FLOW_IDS_OLD)
    }

    fn flows_of(&self, new: u32, old: u32) -> impl Iterator<Item = u64> + use<'a> {
        let has_new = self.has_flows && self.fields().any(|part| part.number == new);
        let number = if has_new { new } else { old };
        self.numbers(number).take(MAX_LIST)
    }

    /// Returns all values of a repeated number, packed or not. Doubles are returned as bits.
    fn numbers(&self, number: u32) -> impl Iterator<Item = u64> + use<'a> {
        let is_fixed = matches!(
            number,
            field::FLOW_IDS | field::TERMINATING_FLOW_IDS | field::EXTRA_DOUBLE_COUNTER_VALUES
        );
        let fields = self.fields().filter(move |part| part.number == number);
        fields.flat_map(move |part| {
            let (words, varints, single) = match part.value {
                Value::Bytes(bytes) if is_fixed => (bytes.as_chunks().0, None, None),
                Value::Bytes(_) => (&[][..], Some(part.as_varints()), None),
                _ => (&[][..], None, part.as_u64()),
            };
            let words = words.iter().map(|word| u64::from_le_bytes(*word));
            words.chain(varints.into_iter().flatten()).chain(single)
        })
    }
}

/// The fields of a `TrackEvent` that are needed in the order of the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventGlance {
    /// The field `type`.
    pub event_type: i32,
    /// Set if the event has a track uuid.
    pub has_track: bool,
    /// Set if the event has times in the encoding of old writers, or extra counters.
    pub has_more: bool,
}

impl EventGlance {
    /// Reads these fields of an event.
    #[inline]
    pub fn read(bytes: &[u8]) -> Self {
        let mut glance = Self::default();
        Fields::walk(bytes, |part| match part.number {
            field::TYPE => glance.event_type = part.as_u64().unwrap_or(0) as i32,
            field::TRACK_UUID => glance.has_track = part.as_u64().is_some(),
            field::EXTRA_COUNTER_VALUES | field::EXTRA_DOUBLE_COUNTER_VALUES => {
                glance.has_more = true;
            }
            number if is_relative_time(number) => glance.has_more = true,
            _ => {}
        });
        glance
    }
}

/// Returns true if a field is a time in the encoding of old writers.
#[inline]
pub fn is_relative_time(number: u32) -> bool {
    matches!(
        number,
        field::TIMESTAMP_DELTA_US
            | field::TIMESTAMP_ABSOLUTE_US
            | field::THREAD_TIME_DELTA_US
            | field::THREAD_TIME_ABSOLUTE_US
            | field::THREAD_INSTRUCTION_COUNT_DELTA
            | field::THREAD_INSTRUCTION_COUNT_ABSOLUTE
    )
}

/// Returns true if a field is a value or the track of an extra counter.
pub fn is_extra_counter(number: u32) -> bool {
    matches!(
        number,
        field::EXTRA_COUNTER_VALUES
            | field::EXTRA_COUNTER_TRACK_UUIDS
            | field::EXTRA_DOUBLE_COUNTER_VALUES
            | field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS
    )
}

/// Returns the letter of the kind of a legacy part.
#[inline]
pub fn legacy_phase(legacy: &LegacyEventView<'_>) -> Option<u8> {
    legacy.phase.map(|phase| phase as u8)
}

/// Returns the letter of the kind in an encoded legacy part.
#[inline]
fn phase_of(legacy: Option<&[u8]>) -> Option<u8> {
    let phases = Fields::new(legacy?).map_while(Result::ok);
    let phases = phases.filter(|part| part.number == legacy_event::PHASE);
    phases.last()?.as_u64().map(|phase| phase as u8)
}

#[cfg(test)]
mod tests {
    use ferretto_proto::fields::{
        debug_annotation, thread_descriptor, trace_packet, trace_packet_defaults,
        track_event_defaults,
    };
    use ferretto_wire::{Encoder, encode};

    use super::*;
    use crate::sequence::{Clocks, Fault};

    fn kind(event_type: i32, phase: Option<u8>) -> Option<EventKind> {
        let bytes = encode(|event| {
            event.int(field::TYPE, event_type.into());
            if let Some(phase) = phase {
                event.nested(field::LEGACY_EVENT, |legacy| {
                    legacy.varint(legacy_event::PHASE, phase.into());
                });
            }
        });
        TrackEvent::read(&bytes).kind()
    }

    #[test]
    fn the_phase_of_an_old_writer_takes_precedence_over_the_type_of_slices() {
        use event_type::*;
        assert_eq!(kind(TYPE_SLICE_BEGIN, None), Some(EventKind::Begin));
        assert_eq!(kind(TYPE_SLICE_BEGIN, Some(b'E')), Some(EventKind::End));
        assert_eq!(kind(TYPE_UNSPECIFIED, Some(b'i')), Some(EventKind::Instant));
        assert_eq!(kind(TYPE_INSTANT, Some(b'X')), Some(EventKind::Legacy('X')));
        assert_eq!(kind(TYPE_COUNTER, Some(b'B')), Some(EventKind::Counter));
        assert_eq!(kind(TYPE_STATE, Some(b'B')), Some(EventKind::State));
        assert_eq!(kind(TYPE_UNSPECIFIED, None), None);
        assert_eq!(kind(77, None), None);
    }

    #[test]
    fn iids_take_precedence_over_texts_and_integers_over_other_counters() {
        let bytes = encode(|event| {
            event.varint(field::NAME_IID, 3);
            event.string(field::NAME, "name");
            event.int(field::COUNTER_VALUE, -1);
            event.double(field::DOUBLE_COUNTER_VALUE, 0.5);
            event.string(field::CATEGORIES, "text");
            event.varint(field::CATEGORY_IIDS, 7);
        });
        let event = TrackEvent::read(&bytes);
        assert_eq!(event.name(), Some(Text::Interned(3)));
        assert_eq!(event.counter, Some(CounterValue::Integer(-1)));
        let categories: Vec<_> = event.categories().collect();
        assert_eq!(categories, [Text::Interned(7), Text::Literal(b"text")]);
    }

    #[test]
    fn flows_are_read_packed_and_one_by_one_and_old_ones_only_without_new_ones() {
        let bytes = encode(|event| {
            event.varint(field::FLOW_IDS_OLD, 9);
            event.fixed64(field::FLOW_IDS, 1);
            event.bytes(field::FLOW_IDS, &2_u64.to_le_bytes());
            event.bytes(field::TERMINATING_FLOW_IDS_OLD, &[5, 6]);
        });
        let event = TrackEvent::read(&bytes);
        assert_eq!(event.flows().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(event.ending_flows().collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn extra_counters_are_on_the_tracks_of_the_event_or_of_its_sequence() {
        let defaults = encode(|defaults: &mut Encoder<'_, _>| {
            defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |of| {
                of.varint(track_event_defaults::TRACK_UUID, 5);
                of.varint(track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS, 10);
            });
        });
        let defaults = EventDefaults::read(&defaults);
        let bytes = encode(|event| {
            event.int(field::EXTRA_COUNTER_VALUES, -2);
            event.int(field::EXTRA_COUNTER_VALUES, 3);
            event.double(field::EXTRA_DOUBLE_COUNTER_VALUES, 0.5);
        });
        let event = TrackEvent::read(&bytes);
        let extra: Vec<_> = event.extra_counters(&defaults);
        let tracks: Vec<_> = extra.iter().map(|counter| counter.track).collect();
        let expected = [Ok(10), Err(NoTrack::NotInList), Err(NoTrack::NoList)];
        assert_eq!(tracks, expected);
        assert_eq!(extra[0].value, CounterValue::Integer(-2));
        assert_eq!(event.track(&defaults, 1), EventTrack::Uuid(5));
        let without = EventDefaults::default();
        assert_eq!(event.track(&without, 1), EventTrack::Sequence(1));
    }

    #[test]
    fn relative_times_need_the_thread_of_their_sequence() {
        let thread = encode(|thread: &mut Encoder<'_, _>| {
            thread.int(thread_descriptor::REFERENCE_TIMESTAMP_US, 1000);
        });
        let delta = encode(|event: &mut Encoder<'_, _>| event.int(field::TIMESTAMP_DELTA_US, 5));
        let absolute = encode(|event| event.int(field::TIMESTAMP_ABSOLUTE_US, 77));
        let (delta, absolute) = (TrackEvent::read(&delta), TrackEvent::read(&absolute));
        let clocks = Clocks::new(false);
        let mut state = EventState::default();
        let time = |state: &mut EventState, event| state.time(event, None, 0, &clocks);
        let missing = Err(TimeFault::Base(MissingBase::Time));
        assert_eq!(time(&mut state, &delta), missing);
        state.describe(trace_packet::THREAD_DESCRIPTOR, &thread);
        assert_eq!(time(&mut state, &delta), Ok(Some(1_005_000)));
        assert_eq!(time(&mut state, &absolute), Ok(Some(77_000)));
        assert_eq!(time(&mut state, &delta), Ok(Some(1_010_000)));
        state.times.reset();
        assert_eq!(time(&mut state, &delta), missing);
        let none = TrackEvent::default();
        let fault = Some(Err(Fault::UnknownClock));
        assert_eq!(
            state.time(&none, fault, 0, &clocks),
            Err(TimeFault::Clock(Fault::UnknownClock))
        );
    }

    #[test]
    fn annotations_have_a_name_and_the_first_value_in_order() {
        let bytes = encode(|annotation| {
            annotation.string(debug_annotation::NAME, "name");
            annotation.int(debug_annotation::INT_VALUE, -1);
            annotation.varint(debug_annotation::BOOL_VALUE, 1);
        });
        let annotation = Annotation::read(&bytes);
        assert_eq!(annotation.name, Some(Text::Literal(b"name")));
        let AnnotationValue::Scalar(value) = annotation.value else {
            panic!("{:?}", annotation.value);
        };
        assert_eq!(value, Scalar::Bool(true));
    }
}
