//! How most events begin, encoded already.

use ferretto_proto::fields::track_event;

use crate::track_event::event::Kind;
use crate::track_event::fast::{EVENT, EVENT_LENGTH};

/// How many are kept. Two events that fall on the same place take turns, which costs some nanoseconds.
const PLACES: usize = 64;

/// What makes two events begin in the same way: kind, category and name, the latter two by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Kind, and length of the name.
    shape: u64,
    category: usize,
    name: usize,
}

impl Key {
    #[inline]
    pub(super) fn new(kind: Kind, category: usize, name: &'static str) -> Self {
        Self {
            shape: kind as u64 | (name.len() as u64) << 8,
            category,
            name: name.as_ptr().addr(),
        }
    }

    #[inline]
    fn place(&self) -> usize {
        let mixed = (self.name as u64)
            .wrapping_add((self.category as u64).rotate_left(20))
            .wrapping_add(self.shape)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) as usize % PLACES
    }
}

/// What stands behind the timestamp of a packet: all up to the first fields of the event, and as the event's length how long
/// these are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    key: Key,
    length: usize,
    bits: [u64; 2],
}

const EMPTY: Prefix = Prefix {
    key: Key {
        shape: 0,
        category: 0,
        name: 0,
    },
    length: 0,
    bits: [0; 2],
};

impl Prefix {
    /// All of it, the first byte lowest, and how many bytes it has.
    #[inline(always)]
    pub(super) fn whole(&self) -> (u128, usize) {
        let [low, high] = self.bits.map(u128::from);
        (low | high << 64, self.length)
    }

    /// The first fields of the event alone.
    #[inline]
    pub(super) fn fields(&self) -> (u128, usize) {
        let (bits, length) = self.whole();
        (bits >> (8 * EVENT_LENGTH), length - EVENT_LENGTH)
    }
}

/// What stands behind the timestamp, for the first fields of an event. `None` if they are long.
const fn behind_time(fields: u128, length: usize) -> Option<(u128, usize)> {
    if length > 16 - EVENT_LENGTH {
        return None;
    }
    let head = EVENT as u128 | (length as u128) << (8 * (EVENT_LENGTH - 1));
    Some((head | fields << (8 * EVENT_LENGTH), EVENT_LENGTH + length))
}

/// The same for an event that has no other fields than its kind.
pub(super) const fn bare(kind: Kind) -> (u128, usize) {
    let fields = (track_event::TYPE << 3) as u128 | (kind as u128) << 8;
    match behind_time(fields, 2) {
        Some(bits) => bits,
        None => unreachable!(),
    }
}

/// A small memory of them.
#[derive(Debug)]
pub(super) struct Prefixes([Prefix; PLACES]);

impl Prefixes {
    pub(super) const fn new() -> Self {
        Self([EMPTY; PLACES])
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(EMPTY);
    }

    /// How events with this key begin, if it is known.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Prefix> {
        let prefix = &self.0[key.place()];
        (prefix.key == key).then_some(prefix)
    }

    /// Remembers how events with this key begin; not if that is long.
    pub(super) fn put(&mut self, key: Key, encoded: &[u8]) {
        let mut bytes = [0; 16];
        let length = encoded.len();
        let Some(place) = bytes.get_mut(..length) else {
            return;
        };
        place.copy_from_slice(encoded);
        if let Some((bits, length)) = behind_time(u128::from_le_bytes(bytes), length) {
            self.0[key.place()] = Prefix {
                key,
                length,
                bits: [bits as u64, (bits >> 64) as u64],
            };
        }
    }
}
