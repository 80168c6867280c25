//! A hash table of indexes of a list.

/// The indexes of the entries of a list by their hashes, with open addressing.
///
/// The low bits of a slot contain the index, as many as the size of the table needs. The remaining
/// bits contain high bits of the hash, so that entries with another hash are seldom compared: each
/// would be a cache miss.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Indexes plus one; 0 is an empty slot. The length is a power of two, or 0.
    slots: Vec<u32>,
}

/// The number of slots of the smallest table.
const LEAST: usize = 64;

impl Slots {
    /// Returns an empty table with space for more than this number of entries.
    pub(super) fn for_more_than(entries: usize) -> Self {
        let mut length = LEAST;
        while is_full(length, entries) {
            length *= 2;
        }
        Self {
            slots: vec![0; length],
        }
    }

    /// Returns true if the table has no space for another entry of a list of this length.
    #[inline]
    pub(super) fn is_full_for(&self, entries: usize) -> bool {
        is_full(self.slots.len(), entries)
    }

    /// Returns the index of the entry with this hash for which `is_same` returns true. The table
    /// must not be full.
    ///
    /// # Errors
    ///
    /// Returns the slot for a new entry if there is none.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_same: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let mask = self.mask();
        let tag = tag(hash, mask);
        let mut slot = first(hash, mask);
        loop {
            let found = self.slots[slot];
            if found == 0 {
                return Err(slot);
            }
            if (found ^ tag) & !mask == 0 {
                let index = (found & mask) as usize - 1;
                if is_same(index) {
                    return Ok(index);
                }
            }
            slot = (slot + 1) & mask as usize;
        }
    }

    /// Fills a slot that [`find`](Self::find) returned.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, hash: u64, index: usize) {
        self.slots[slot] = (index as u32 + 1) | tag(hash, self.mask());
    }

    /// Adds a new entry.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, index: usize) {
        if let Err(slot) = self.find(hash, |_| false) {
            self.set(slot, hash, index);
        }
    }

    /// Loads the first slots of these hashes into the cache.
    #[inline]
    pub(super) fn touch(&self, hashes: &[u64]) {
        let mask = self.mask();
        let slots = hashes.iter().map(|hash| self.slots[first(*hash, mask)]);
        std::hint::black_box(slots.fold(0, |all, slot| all ^ slot));
    }

    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> usize {
        4 * self.slots.capacity()
    }

    #[inline]
    fn mask(&self) -> u32 {
        (self.slots.len() as u32).wrapping_sub(1)
    }
}

/// Returns true if a table of this length has no space for another entry. A quarter of the slots
/// stays empty.
#[inline]
fn is_full(length: usize, entries: usize) -> bool {
    (entries + 1) * 4 > length * 3
}

/// Returns the first slot to search.
#[inline]
fn first(hash: u64, mask: u32) -> usize {
    ((hash ^ hash >> 32) as u32 & mask) as usize
}

/// Returns the bits of a hash that a slot contains.
#[inline]
fn tag(hash: u64, mask: u32) -> u32 {
    (hash >> 32) as u32 & !mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_testing::Random;

    #[test]
    fn entries_are_found_again() {
        let (mut slots, mut hashes) = (Slots::default(), Vec::new());
        let mut random = Random(3);
        for index in 0..5000_usize {
            // Many entries have the same first slot, and some the same hash.
            let hash = random.next() & 0xffff_0000_0000_00ff;
            if slots.is_full_for(index) {
                slots = Slots::for_more_than(index);
                for (index, hash) in hashes.iter().enumerate() {
                    slots.add(*hash, index);
                }
            }
            let found = slots.find(hash, |index| hashes[index] == hash);
            assert_eq!(
                found.ok(),
                hashes.iter().position(|known| *known == hash),
                "{index}"
            );
            slots.add(hash, index);
            hashes.push(hash);
        }
        for (index, hash) in hashes.iter().enumerate() {
            assert_eq!(slots.find(*hash, |other| other == index), Ok(index));
        }
    }
}
