//! Packets that are assembled in registers and written straight into shared memory: events that
//! need no new incremental state and have only numeric arguments.

use ferretto_client::TraceWriter;
use ferretto_format::SequenceWriter;
use ferretto_proto::fields::{debug_annotation, track_event};
use ferretto_shm::short;
use ferretto_wire::varint_bits;

use super::head::{EVENT_LENGTH, short_timestamp};
use super::header_cache::{HeaderCache, Key, bare};
use crate::track_event::event::{Categories, CounterValue, Event, EventTrack, Kind, ShortEvent};
use crate::track_event::field::Field;
use crate::track_event::interner::Interner;
use crate::track_event::name::Name;
use crate::track_event::track::{Identity, Track, TrackSet};

/// Up to sixteen bytes, the first one lowest, and their number.
type Bits = (u128, usize);

/// The parts of a sequence that a packet depends on.
pub(in crate::track_event) struct Sources<'a> {
    pub(in crate::track_event) interner: &'a Interner,
    pub(in crate::track_event) identity: &'a Identity,
    /// The tracks described so far.
    pub(in crate::track_event) described: &'a TrackSet,
    pub(in crate::track_event) hide_arguments: bool,
}

/// Writes an event without fields. Returns `None`, without any effect, if that is impossible.
#[inline(always)]
pub(super) fn write_short(
    headers: &HeaderCache,
    writer: &mut TraceWriter,
    sequence: &mut SequenceWriter,
    now: u64,
    event: &ShortEvent,
) -> Option<()> {
    let behind_time = match *event {
        ShortEvent::End => const { bare(Kind::End) },
        ShortEvent::Named {
            kind,
            category,
            name,
        } => headers.get(Key::new(kind, category, name))?.whole(),
    };
    let time = short_timestamp(sequence.clocks().difference(now)?)?;
    let mut packet = short::begin(writer)?;
    let is_whole = packet.push(time.0.into(), time.1) && packet.push(behind_time.0, behind_time.1);
    if !is_whole {
        return None;
    }
    packet.finish();
    sequence.advance(now);
    Some(())
}

/// Writes an event. Returns `None`, without any effect, if that is impossible.
#[inline(always)]
pub(super) fn write(
    headers: &HeaderCache,
    writer: &mut TraceWriter,
    sequence: &mut SequenceWriter,
    sources: &Sources<'_>,
    now: u64,
    event: &Event<'_>,
) -> Option<()> {
    let track = track(event)?;
    let beginning = beginning(headers, event)?;
    let (time, width) = short_timestamp(sequence.clocks().difference(now)?)?;
    let track = match track {
        Some(track) => Some(sources.known_uuid(track)?),
        None => None,
    };
    let mut packet = short::begin(writer)?;
    let mut push = |(bits, length): Bits| packet.push(bits, length).then_some(());
    push((time.into(), width))?;
    push(beginning)?;
    if let Some(uuid) = track {
        push(varint_field(track_event::TRACK_UUID, uuid))?;
    }
    match event.value {
        Some(CounterValue::Integer(value)) => {
            push(varint_field(track_event::COUNTER_VALUE, value as u64))?;
        }
        Some(CounterValue::Double(_)) => return None,
        None => {}
    }
    for field in event.fields {
        if let Field::Argument(name, value) = *field {
            if sources.hide_arguments {
                return None;
            }
            let name = sources.interner.known_argument(name)?;
            push(argument(name, value.number().get()?)?)?;
        }
    }
    let fields = width + EVENT_LENGTH;
    packet.set(fields - 1, (packet.len() - fields) as u8);
    packet.finish();
    sequence.advance(now);
    Some(())
}

/// Returns the bytes after the timestamp, up to type, categories and name.
#[inline]
fn beginning(headers: &HeaderCache, event: &Event<'_>) -> Option<Bits> {
    match (event.categories, event.name) {
        (Categories::Static(category), Some(Name::Static(name))) => {
            Some(headers.get(Key::new(event.kind, category, name))?.whole())
        }
        (Categories::None, None) => Some(bare(event.kind)),
        _ => None,
    }
}

impl Sources<'_> {
    /// Returns the uuid of a track if it is described already.
    #[inline(always)]
    fn known_uuid(&self, track: &Track<'_>) -> Option<u64> {
        let uuid = track.number_for(self.identity);
        (uuid == 0 || self.described.contains(uuid)).then_some(uuid)
    }
}

/// Returns the explicit track of an event, if any; `None` if the event has fields that need the
/// plain path.
#[inline(always)]
fn track<'a>(event: &Event<'a>) -> Option<Option<&'a Track<'a>>> {
    let mut track = match event.track {
        EventTrack::Thread => None,
        EventTrack::Track(track) => Some(track),
        EventTrack::Counter(counter) if counter.is_incremental => return None,
        EventTrack::Counter(counter) => Some(&counter.track),
        EventTrack::State(state) => Some(&state.track),
    };
    for field in event.fields {
        match *field {
            Field::Argument(_, value) if value.number().get().is_some() => {}
            Field::Track(given)
                if matches!(event.track, EventTrack::Thread | EventTrack::Track(_)) =>
            {
                track = Some(given);
            }
            _ => return None,
        }
    }
    Some(track)
}

/// Encodes an integer field.
#[inline(always)]
fn varint_field(field: u32, value: u64) -> Bits {
    let (tag, width) = varint_bits(u64::from(field) << 3);
    let (bits, length) = varint_bits(value);
    (tag | bits << (8 * width), width + length)
}

/// Encodes an integer argument whose name has a one-byte iid.
#[inline]
fn argument(name: u64, (field, value): (u32, u64)) -> Option<Bits> {
    const ANNOTATION: u8 = (track_event::DEBUG_ANNOTATIONS << 3 | 2) as u8;
    const NAME: u8 = (debug_annotation::NAME_IID << 3) as u8;
    if name >= 0x80 || field >= 16 {
        return None;
    }
    let (bits, length) = varint_bits(value);
    let body = u64::from(field) << 3;
    let head = [ANNOTATION, 3 + length as u8, NAME, name as u8];
    let head = u64::from(u32::from_le_bytes(head)) | body << 32;
    Some((u128::from(head) | bits << 40, 5 + length))
}
