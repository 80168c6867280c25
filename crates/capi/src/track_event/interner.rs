//! Interned data of a sequence.

use std::ffi::{CStr, c_char, c_int};
use std::hash::BuildHasherDefault;

use ferretto_format::InternedData;
use ferretto_proto::fields::interned_data;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHasher};

/// The number of cached texts by address.
const RECENT: usize = 64;

unsafe extern "C" {
    fn strcmp(first: *const c_char, second: *const c_char) -> c_int;
}

/// The iids of one kind of data, by content.
#[derive(Debug, Default)]
struct Kind {
    /// A field of InternedData.
    field: u32,
    numbers: FxHashMap<Box<[u8]>, u64>,
}

/// A cached text.
#[derive(Debug)]
struct Recent {
    field: u32,
    address: *const c_char,
    /// The text at the address, to detect changes.
    text: Box<CStr>,
    number: u64,
}

/// The maximum length of cached short data, in bytes.
const SHORT: usize = 16;

/// Short data in a form for fast comparison: its kind, length and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Short {
    field: u32,
    length: u32,
    /// The first and the last eight bytes, or fewer, which may overlap. With the length they
    /// determine all bytes.
    bytes: [u64; 2],
}

impl Short {
    #[inline]
    fn new(field: u32, bytes: &[u8]) -> Option<Self> {
        let (first, last) = match bytes.len() {
            8..=SHORT => (
                u64::from_le_bytes(*bytes.first_chunk()?),
                u64::from_le_bytes(*bytes.last_chunk()?),
            ),
            4..8 => (
                u32::from_le_bytes(*bytes.first_chunk()?).into(),
                u32::from_le_bytes(*bytes.last_chunk()?).into(),
            ),
            2..4 => (
                u16::from_le_bytes(*bytes.first_chunk()?).into(),
                u16::from_le_bytes(*bytes.last_chunk()?).into(),
            ),
            1 => (bytes.first().copied()?.into(), 0),
            _ => return None,
        };
        Some(Self {
            field,
            length: bytes.len() as u32,
            bytes: [first, last],
        })
    }

    /// Returns the index of its cache entry, one of [`RECENT`].
    #[inline]
    fn cache_index(&self) -> usize {
        let [first, last] = self.bytes;
        let kind = u64::from(self.field) << 32 | u64::from(self.length);
        let mixed = (first ^ last.rotate_left(29) ^ kind).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) as usize % RECENT
    }
}

/// The iids of all kinds, and the entries still to be written. The texts at a program's addresses
/// may change.
#[derive(Debug)]
pub(super) struct Interner {
    kinds: Vec<Kind>,
    recent: Box<[Option<Recent>; RECENT]>,
    /// The cache of short data with iids, which are 0 in free entries. Empty before the first use.
    short: Vec<(Short, u64)>,
    /// Bit `n` is set if the category with this iid was written.
    categories: Vec<u64>,
    /// The entries for the current packet.
    new: InternedData,
}

impl Interner {
    pub(super) fn new() -> Self {
        Self {
            kinds: Vec::new(),
            recent: Box::new([const { None }; RECENT]),
            short: Vec::new(),
            categories: Vec::new(),
            new: InternedData::new(),
        }
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.kinds.clear();
        self.recent.fill_with(|| None);
        self.short.clear();
        self.categories.clear();
        self.new.clear();
    }

    /// Returns the iid of data, counted from 1 for each kind, and true if it had one before.
    #[inline]
    pub(super) fn intern(&mut self, field: u32, bytes: &[u8]) -> (u64, bool) {
        let Some(short) = Short::new(field, bytes) else {
            return self.find_or_add(field, bytes);
        };
        let cache_index = short.cache_index();
        match self.short.get(cache_index) {
            Some((known, number)) if *number != 0 && *known == short => (*number, true),
            _ => self.intern_short(short, cache_index, bytes),
        }
    }

    /// Interns short data that is not in its cache entry.
    #[cold]
    fn intern_short(&mut self, short: Short, cache_index: usize, bytes: &[u8]) -> (u64, bool) {
        let (number, is_known) = self.find_or_add(short.field, bytes);
        if self.short.is_empty() {
            self.short.resize(RECENT, (short, 0));
        }
        if let Some(entry) = self.short.get_mut(cache_index) {
            *entry = (short, number);
        }
        (number, is_known)
    }

    fn find_or_add(&mut self, field: u32, bytes: &[u8]) -> (u64, bool) {
        let index = self.kinds.iter().position(|kind| kind.field == field);
        let index = index.unwrap_or_else(|| {
            self.kinds.push(Kind {
                field,
                numbers: FxHashMap::with_hasher(FxBuildHasher),
            });
            self.kinds.len() - 1
        });
        let numbers = &mut self.kinds[index].numbers;
        if let Some(&number) = numbers.get(bytes) {
            return (number, true);
        }
        let number = numbers.len() as u64 + 1;
        numbers.insert(bytes.into(), number);
        (number, false)
    }

    /// Returns the iid of a text, which is written with the event if it is new.
    ///
    /// # Safety
    ///
    /// `text` is zero-terminated.
    #[inline]
    pub(super) unsafe fn text(&mut self, field: u32, text: *const c_char) -> u64 {
        let cache_index = (text as usize ^ text as usize >> 6 ^ field as usize) % RECENT;
        if let Some(recent) = &self.recent[cache_index]
            && recent.address == text
            && recent.field == field
            // SAFETY: both are zero-terminated.
            && unsafe { strcmp(text, recent.text.as_ptr()) } == 0
        {
            return recent.number;
        }
        // SAFETY: by contract.
        unsafe { self.look_up(cache_index, field, text) }
    }

    /// # Safety
    ///
    /// As for [`text`](Self::text).
    #[cold]
    unsafe fn look_up(&mut self, cache_index: usize, field: u32, text: *const c_char) -> u64 {
        // SAFETY: by contract.
        let string = unsafe { CStr::from_ptr(text) };
        let (number, is_known) = self.intern(field, string.to_bytes());
        if !is_known {
            self.new.add_text(field, number, string.to_bytes());
        }
        self.recent[cache_index] = Some(Recent {
            field,
            address: text,
            text: string.into(),
            number,
        });
        number
    }

    /// Returns true if a category was written before, and marks it as written.
    #[inline]
    pub(super) fn has_category(&mut self, iid: u64) -> bool {
        let (word, bit) = ((iid / 64) as usize, 1 << (iid % 64));
        let is_known = self
            .categories
            .get(word)
            .is_some_and(|word| word & bit != 0);
        is_known || self.add_category(iid, word, bit)
    }

    #[cold]
    fn add_category(&mut self, iid: u64, word: usize, bit: u64) -> bool {
        if self.categories.len() <= word {
            self.categories.resize(word + 1, 0);
        }
        self.categories[word] |= bit;
        // The program may have written the category itself; it interns categories by these bytes.
        self.intern(interned_data::EVENT_CATEGORIES, &iid.to_ne_bytes())
            .1
    }

    /// The entries for the current packet.
    #[inline]
    pub(super) fn new_entries(&mut self) -> &mut InternedData {
        &mut self.new
    }
}

/// A set of numbers.
pub(super) type Numbers = std::collections::HashSet<u64, BuildHasherDefault<FxHasher>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_distinguished_by_kind_length_and_each_byte() {
        let mut interner = Interner::new();
        let mut all = vec![Vec::new()];
        for length in 1..40 {
            all.push(vec![0; length]);
            for at in 0..length {
                let mut bytes = vec![0; length];
                bytes[at] = 1;
                all.push(bytes);
            }
        }
        for round in 0..3 {
            for field in [1, 2] {
                for (bytes, number) in all.iter().zip(1..) {
                    let found = interner.intern(field, bytes);
                    assert_eq!(found, (number, round > 0), "{bytes:?}");
                }
            }
        }
        interner.clear();
        assert_eq!(interner.intern(2, &all[5]), (1, false));
    }

    #[test]
    fn texts_are_interned_by_content() {
        let mut interner = Interner::new();
        let mut text = *b"one\0";
        // SAFETY: all are zero-terminated.
        unsafe {
            assert_eq!(interner.text(2, text.as_ptr().cast()), 1);
            assert_eq!(interner.text(2, text.as_ptr().cast()), 1);
            text[..3].copy_from_slice(b"two");
            assert_eq!(interner.text(2, text.as_ptr().cast()), 2);
            assert_eq!(interner.text(2, c"one".as_ptr()), 1);
            assert_eq!(interner.text(3, c"two".as_ptr()), 1);
        }
        assert_eq!(interner.intern(2, b"two"), (2, true));
        assert_eq!(interner.intern(2, b"three"), (3, false));
        let packet = ferretto_wire::encode(|packet| interner.new_entries().write_to(packet));
        assert_eq!(packet.len(), 2 + 3 * 9);
        interner.clear();
        assert_eq!(interner.intern(2, b"three"), (1, false));
    }

    #[test]
    fn categories_are_shared_with_programs_that_write_them() {
        let mut interner = Interner::new();
        assert!(!interner.has_category(70));
        assert!(interner.has_category(70));
        assert!(interner.intern(1, &70u64.to_ne_bytes()).1);
        assert!(!interner.intern(1, &3u64.to_ne_bytes()).1);
        assert!(interner.has_category(3));
        assert!(!interner.has_category(1_000));
    }
}
