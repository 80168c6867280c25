//! How most events begin, encoded already.

use crate::track_event::event::Kind;

/// How many are kept. Two events that fall on the same place take turns, which costs some nanoseconds.
const PLACES: usize = 64;

/// What makes two events begin in the same way: kind, category and name, the latter two by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    kind: u32,
    name_length: u32,
    category: usize,
    name: usize,
}

impl Key {
    #[inline]
    pub(super) fn new(kind: Kind, category: usize, name: &'static str) -> Self {
        Self {
            kind: kind as u32,
            name_length: name.len() as u32,
            category,
            name: name.as_ptr().addr(),
        }
    }

    #[inline]
    fn place(&self) -> usize {
        let mixed = (self.name as u64)
            .wrapping_add((self.category as u64).rotate_left(20))
            .wrapping_add(u64::from(self.kind))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) as usize % PLACES
    }
}

/// The first fields of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    key: Key,
    pub(super) length: usize,
    pub(super) bytes: [u8; 16],
}

const EMPTY: Prefix = Prefix {
    key: Key {
        kind: 0,
        name_length: 0,
        category: 0,
        name: 0,
    },
    length: 0,
    bytes: [0; 16],
};

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
        if let Some(place) = bytes.get_mut(..encoded.len()) {
            place.copy_from_slice(encoded);
            self.0[key.place()] = Prefix {
                key,
                length: encoded.len(),
                bytes,
            };
        }
    }
}
