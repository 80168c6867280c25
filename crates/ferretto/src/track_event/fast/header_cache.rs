//! A cache of the encoded first fields of events.

use ferretto_proto::fields::track_event;

use super::head::{EVENT, EVENT_LENGTH};
use crate::track_event::category::Category;
use crate::track_event::event::Kind;

/// The number of headers in the cache. Events with the same slot evict each other, which costs some
/// nanoseconds.
const SLOTS: usize = 64;

/// The key of a header: type, category and name of an event, the latter two by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::track_event) struct Key {
    /// The type, and the length of the name.
    shape: u64,
    category: usize,
    name: usize,
}

impl Key {
    #[inline]
    pub(in crate::track_event) fn new(
        kind: Kind,
        category: &'static Category,
        name: &'static str,
    ) -> Self {
        Self {
            shape: kind as u64 | (name.len() as u64) << 8,
            category: std::ptr::from_ref(category).addr(),
            name: name.as_ptr().addr(),
        }
    }

    #[inline]
    fn slot(&self) -> usize {
        let mixed = (self.name as u64)
            .wrapping_add((self.category as u64).rotate_left(20))
            .wrapping_add(self.shape)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) as usize % SLOTS
    }
}

/// The encoded bytes after the timestamp of a packet, up to the first fields of the event. The
/// event's length covers these fields only.
#[derive(Clone, Copy, Debug)]
pub(in crate::track_event) struct Header {
    key: Key,
    length: usize,
    bits: [u64; 2],
}

const EMPTY: Header = Header {
    key: Key {
        shape: 0,
        category: 0,
        name: 0,
    },
    length: 0,
    bits: [0; 2],
};

impl Header {
    /// Returns the whole header, the first byte lowest, and its length.
    #[inline(always)]
    pub(in crate::track_event) fn whole(&self) -> (u128, usize) {
        let [low, high] = self.bits.map(u128::from);
        (low | high << 64, self.length)
    }

    /// Returns only the first fields of the event.
    #[inline]
    pub(in crate::track_event) fn fields(&self) -> (u128, usize) {
        let (bits, length) = self.whole();
        (bits >> (8 * EVENT_LENGTH), length - EVENT_LENGTH)
    }
}

/// Returns the bytes after the timestamp, given the first fields of an event. `None` if they are
/// too long.
const fn behind_time(fields: u128, length: usize) -> Option<(u128, usize)> {
    if length > 16 - EVENT_LENGTH {
        return None;
    }
    let head = EVENT as u128 | (length as u128) << (8 * (EVENT_LENGTH - 1));
    Some((head | fields << (8 * EVENT_LENGTH), EVENT_LENGTH + length))
}

/// Returns the header of an event whose only field is its type.
pub(in crate::track_event) const fn bare(kind: Kind) -> (u128, usize) {
    let fields = (track_event::TYPE << 3) as u128 | (kind as u128) << 8;
    match behind_time(fields, 2) {
        Some(bits) => bits,
        None => unreachable!(),
    }
}

/// The headers of recent events.
#[derive(Debug)]
pub(in crate::track_event) struct HeaderCache([Header; SLOTS]);

impl HeaderCache {
    pub(in crate::track_event) const fn new() -> Self {
        Self([EMPTY; SLOTS])
    }

    pub(in crate::track_event) fn clear(&mut self) {
        self.0.fill(EMPTY);
    }

    /// Returns the header of a key, if it is cached.
    #[inline]
    pub(in crate::track_event) fn get(&self, key: Key) -> Option<&Header> {
        let header = &self.0[key.slot()];
        (header.key == key).then_some(header)
    }

    /// Caches the header of a key, unless it is too long.
    pub(in crate::track_event) fn put(&mut self, key: Key, encoded: &[u8]) {
        let mut bytes = [0; 16];
        let length = encoded.len();
        let Some(target) = bytes.get_mut(..length) else {
            return;
        };
        target.copy_from_slice(encoded);
        if let Some((bits, length)) = behind_time(u128::from_le_bytes(bytes), length) {
            self.0[key.slot()] = Header {
                key,
                length,
                bits: [bits as u64, (bits >> 64) as u64],
            };
        }
    }
}
