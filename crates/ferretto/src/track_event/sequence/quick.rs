//! Events that are put together in registers and written straight into shared memory: those that need nothing explained
//! and to which nothing but numbers is attached.

use ferretto_proto::fields::{debug_annotation, track_event};
use ferretto_wire::varint_bits;

use super::Sequence;
use super::prefix::{self, Key};
use crate::track_event::event::{Categories, CounterValue, Event, Name, Place};
use crate::track_event::fast::{EVENT_LENGTH, short_timestamp};
use crate::track_event::field::Field;
use crate::track_event::track::Track;

/// Up to sixteen bytes, the first one lowest, and how many they are.
type Bits = (u128, usize);

impl Sequence {
    /// Writes an event, if it is of the kind that can be written quickly. Returns whether it did; if not, nothing has
    /// happened.
    #[inline]
    pub(super) fn quick_event(&mut self, now: u64, event: &Event<'_>) -> bool {
        self.try_quick_event(now, event).is_some()
    }

    #[inline(always)]
    fn try_quick_event(&mut self, now: u64, event: &Event<'_>) -> Option<()> {
        if !self.is_usual() {
            return None;
        }
        let beginning = self.quick_beginning(event)?;
        let (time, width) = short_timestamp(self.clocks.difference(now)?)?;
        let track = match quick_track(event)? {
            Some(track) => Some(self.known_number(track)?),
            None => None,
        };
        let mut packet = self.writer.short_packet()?;
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
                if self.filter.hide_arguments {
                    return None;
                }
                let name = self.interner.known_argument(name)?;
                push(argument(name, value.number().get()?)?)?;
            }
        }
        let fields = width + EVENT_LENGTH;
        packet.set(fields - 1, (packet.len() - fields) as u8);
        packet.finish();
        self.clocks.advance(now);
        Some(())
    }

    /// All from behind the timestamp to kind, categories and name.
    #[inline]
    fn quick_beginning(&self, event: &Event<'_>) -> Option<Bits> {
        match (event.categories, event.name) {
            (Categories::Static(category), Some(Name::Static(name))) => {
                let category = std::ptr::from_ref(category).addr();
                let key = Key::new(event.kind, category, name);
                Some(self.prefixes.get(key)?.whole())
            }
            (Categories::None, None) => Some(prefix::bare(event.kind)),
            _ => None,
        }
    }

    /// The number of a track that has been described.
    #[inline(always)]
    fn known_number(&self, track: &Track<'_>) -> Option<u64> {
        let uuid = track.number_for(&self.identity);
        (uuid == 0 || self.described.contains(uuid)).then_some(uuid)
    }
}

/// The track that an event names, if any; `None` if something is attached that takes longer.
#[inline(always)]
fn quick_track<'a>(event: &Event<'a>) -> Option<Option<&'a Track<'a>>> {
    let mut track = match event.place {
        Place::Thread => None,
        Place::Track(track) => Some(track),
        Place::Counter(counter) if counter.is_incremental => return None,
        Place::Counter(counter) => Some(&counter.track),
        Place::State(state) => Some(&state.track),
    };
    for field in event.fields {
        match *field {
            Field::Argument(_, value) if value.number().get().is_some() => {}
            Field::Track(given) if matches!(event.place, Place::Thread | Place::Track(_)) => {
                track = Some(given);
            }
            _ => return None,
        }
    }
    Some(track)
}

/// An integer behind its tag.
#[inline(always)]
fn varint_field(field: u32, value: u64) -> Bits {
    let (tag, width) = varint_bits(u64::from(field) << 3);
    let (bits, length) = varint_bits(value);
    (tag | bits << (8 * width), width + length)
}

/// An argument whose name has a number of one byte, and whose value is an integer.
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
