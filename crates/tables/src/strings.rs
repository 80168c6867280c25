//! Interned texts.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::ops::Range;

use rustc_hash::FxBuildHasher;

use crate::saved::{Reader, Saved, Writer, check, decode};

/// The id of a text in a [`StringPool`].
///
/// [`NULL`](Self::NULL) is no text, in contrast to [`EMPTY`](Self::EMPTY).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(pub(crate) u32);

impl StringId {
    /// No text.
    pub const NULL: Self = Self(0);
    /// The empty text.
    pub const EMPTY: Self = Self(1);

    /// Returns true if this is no text.
    #[inline]
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// Returns the id as a number. 0 is no text; texts count from 1.
    #[inline]
    pub fn raw(self) -> u32 {
        self.0
    }

    /// Returns the id with this number. There may be no such text.
    #[inline]
    pub fn from_raw(id: u32) -> Self {
        Self(id)
    }

    /// Returns this text, or `other` if there is none.
    #[inline]
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_null() { other } else { self }
    }
}

/// The maximum length of a text in bytes. Longer texts are cut.
const MAX_TEXT: usize = 16 << 20;

/// The interned texts of a trace.
///
/// All texts lie in one buffer. Invalid UTF-8 is replaced by U+FFFD.
#[derive(Debug)]
pub struct StringPool {
    text: String,
    /// The ends of the texts in `text`. The first one belongs to `NULL`, the second one to the
    /// empty text.
    ends: Vec<u64>,
    /// A hash table with open addressing: ids of texts, or 0.
    slots: Vec<u32>,
    /// Set after many texts had the same slot, since this may be an attack.
    keyed: Option<RandomState>,
}

/// The maximum number of texts with the same slot. Above it, a keyed hash is used.
const MAX_PROBES: usize = 512;

impl Default for StringPool {
    fn default() -> Self {
        let mut pool = Self {
            text: String::new(),
            ends: vec![0],
            slots: vec![0; 1 << 10],
            keyed: None,
        };
        pool.intern("");
        pool
    }
}

impl StringPool {
    /// Returns the id of a text. Adds new texts.
    #[inline]
    pub fn intern(&mut self, text: &str) -> StringId {
        let text = cut(text);
        let hash = self.hash(text.as_bytes());
        let mut slot = self.slot(hash);
        let mut probes = 0;
        loop {
            match self.slots[slot] {
                0 => {
                    let id = self.add(text, slot);
                    if probes > MAX_PROBES && self.keyed.is_none() {
                        self.keyed = Some(RandomState::new());
                        self.rebuild_slots(self.slots.len());
                    }
                    return id;
                }
                id if self.bytes_at(id) == text.as_bytes() => return StringId(id),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
            probes += 1;
        }
    }

    /// Returns the id of a text that may not be UTF-8. Adds new texts.
    #[inline]
    pub(crate) fn intern_bytes(&mut self, text: &[u8]) -> StringId {
        // Most texts exist already, and are not validated again.
        if let Some(known) = self.find_bytes(text) {
            return known;
        }
        match std::str::from_utf8(text) {
            Ok(text) => self.intern(text),
            Err(_) => self.intern(&String::from_utf8_lossy(text)),
        }
    }

    /// Returns the id of a text if it exists.
    pub fn find(&self, text: &str) -> Option<StringId> {
        self.find_bytes(cut(text).as_bytes())
    }

    #[inline]
    fn find_bytes(&self, text: &[u8]) -> Option<StringId> {
        let mut slot = self.slot(self.hash(text));
        loop {
            match self.slots[slot] {
                0 => return None,
                id if self.bytes_at(id) == text => return Some(StringId(id)),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Returns a text; `None` for [`StringId::NULL`].
    #[inline]
    pub fn get(&self, id: StringId) -> Option<&str> {
        (!id.is_null()).then(|| self.text_at(id.0))
    }

    /// Returns a text, which is empty for [`StringId::NULL`].
    #[inline]
    pub fn text(&self, id: StringId) -> &str {
        self.text_at(id.0)
    }

    /// Returns the number of ids, including that of no text. All ids are smaller.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no text except the empty one.
    pub fn is_empty(&self) -> bool {
        self.ends.len() <= 2
    }

    /// Returns all texts by id. The first is that of [`StringId::NULL`], and empty.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).map(|id| self.text_at(id))
    }

    /// Returns the memory in bytes.
    pub fn memory(&self) -> usize {
        self.text.capacity() + 8 * self.ends.capacity() + 4 * self.slots.capacity()
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    #[inline]
    fn text_at(&self, id: u32) -> &str {
        self.text.get(self.range_of(id)).unwrap_or("")
    }

    #[inline]
    fn bytes_at(&self, id: u32) -> &[u8] {
        self.text.as_bytes().get(self.range_of(id)).unwrap_or(&[])
    }

    #[inline]
    fn range_of(&self, id: u32) -> Range<usize> {
        let index = id as usize;
        let start = match index {
            0 => 0,
            index => self.ends.get(index - 1).copied().unwrap_or(0),
        };
        let end = self.ends.get(index).copied().unwrap_or(0);
        start as usize..end as usize
    }

    #[inline]
    fn hash(&self, text: &[u8]) -> u64 {
        match &self.keyed {
            None => FxBuildHasher.hash_one(text),
            Some(keyed) => keyed.hash_one(text),
        }
    }

    #[inline]
    fn slot(&self, hash: u64) -> usize {
        // The upper bits of the hash have the better distribution.
        (hash >> 20) as usize & (self.slots.len() - 1)
    }

    #[cold]
    fn add(&mut self, text: &str, slot: usize) -> StringId {
        let Some(id) = u32::try_from(self.ends.len())
            .ok()
            .filter(|id| *id < u32::MAX)
        else {
            // All ids are in use.
            return StringId::EMPTY;
        };
        self.text.push_str(text);
        self.ends.push(self.text.len() as u64);
        self.slots[slot] = id;
        if self.ends.len() * 2 > self.slots.len() {
            self.rebuild_slots(self.slots.len() * 4);
        }
        StringId(id)
    }

    /// Rebuilds the hash table with this number of slots.
    fn rebuild_slots(&mut self, length: usize) {
        self.slots = vec![0; length];
        for id in 1..self.ends.len() as u32 {
            let mut slot = self.slot(self.hash(self.bytes_at(id)));
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (length - 1);
            }
            self.slots[slot] = id;
        }
    }
}

impl Saved for StringPool {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.bytes(self.text.as_bytes())?;
        let ends = self.ends.iter().flat_map(|end| end.to_le_bytes());
        writer.bytes(&ends.collect::<Vec<u8>>())?;
        // Keyed hashes are those of this process only.
        let slots = self.slots.iter().filter(|_| self.keyed.is_none());
        let slots = slots.flat_map(|slot| slot.to_le_bytes());
        writer.bytes(&slots.collect::<Vec<u8>>())
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let text = String::from_utf8(reader.bytes()?).map_err(io::Error::other)?;
        let mut pool = Self {
            text,
            ends: decode(&reader.bytes()?),
            slots: decode(&reader.bytes()?),
            keyed: None,
        };
        check(pool.ends.len() >= 2 && u32::try_from(pool.ends.len()).is_ok())?;
        if pool.slots.is_empty() {
            pool.keyed = Some(RandomState::new());
            pool.rebuild_slots((4 * pool.ends.len()).next_power_of_two());
        }
        // There is an empty slot, which ends each search.
        check(pool.slots.len().is_power_of_two() && pool.slots.len() > pool.ends.len())?;
        Ok(pool)
    }
}

fn cut(text: &str) -> &str {
    match text.len() {
        ..=MAX_TEXT => text,
        _ => &text[..text.floor_char_boundary(MAX_TEXT)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_chosen_for_equal_slots_do_not_slow_down_the_pool() {
        let mut pool = StringPool::default();
        // All of them have the same slot among 2^12.
        let slot_of = |text: &str| FxBuildHasher.hash_one(text.as_bytes()) >> 20 & 0xfff;
        let texts = (0..).map(|n| format!("{n}"));
        let texts: Vec<_> = texts.filter(|text| slot_of(text) == 7).take(700).collect();
        let ids: Vec<_> = texts.iter().map(|text| pool.intern(text)).collect();
        assert!(pool.keyed.is_some());
        assert!(
            texts
                .iter()
                .zip(&ids)
                .all(|(text, id)| pool.find(text) == Some(*id))
        );
        assert!(
            texts
                .iter()
                .zip(&ids)
                .all(|(text, id)| pool.text(*id) == text)
        );
    }

    #[test]
    fn texts_are_interned_and_empty_is_not_null() {
        let mut pool = StringPool::default();
        let ids: Vec<_> = (0..5000)
            .map(|n| pool.intern(&format!("text {n}")))
            .collect();
        assert_eq!(pool.intern("text 17"), ids[17]);
        assert_eq!(pool.get(ids[4999]), Some("text 4999"));
        assert_eq!(
            (pool.get(StringId::NULL), pool.get(StringId::EMPTY)),
            (None, Some(""))
        );
        assert_eq!(
            (pool.intern(""), pool.find("nothing")),
            (StringId::EMPTY, None)
        );
        let damaged = pool.intern_bytes(b"a\xff");
        assert_eq!(pool.text(damaged), "a\u{fffd}");
        assert_eq!(pool.len(), 2 + 5000 + 1);
    }
}
