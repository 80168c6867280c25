//! Ids of writers.

use std::collections::BTreeMap;

/// The largest writer id that the service accepts.
pub(crate) const MAX_WRITER_ID: u16 = 0x7fff;

/// Assigns writer ids in a round-robin fashion, so that an id is reused as late as possible.
#[derive(Debug, Default)]
pub(crate) struct WriterIds {
    last: u16,
    in_use: u16,
    used: Vec<u64>,
    /// The next chunk id of every id that was used before. A writer that reuses an id continues
    /// there: the service would take chunks with ids from 0 for old ones.
    retired: BTreeMap<u16, u32>,
}

impl WriterIds {
    /// Returns a free id with the id of its first chunk; `None` if all are in use.
    pub(crate) fn allocate(&mut self) -> Option<(u16, u32)> {
        if self.in_use == MAX_WRITER_ID {
            return None;
        }
        self.used.resize(usize::from(MAX_WRITER_ID) / 64 + 1, 0);
        loop {
            self.last = if self.last >= MAX_WRITER_ID {
                1
            } else {
                self.last + 1
            };
            let (word, bit) = (usize::from(self.last / 64), self.last % 64);
            if self.used[word] >> bit & 1 == 0 {
                self.used[word] |= 1 << bit;
                self.in_use += 1;
                return Some((self.last, self.retired.remove(&self.last).unwrap_or(0)));
            }
        }
    }

    /// Never assigns the ids in use in `other`, and assigns those used there before as late as
    /// possible.
    pub(crate) fn avoid(&mut self, other: &Self) {
        self.used.resize(usize::from(MAX_WRITER_ID) / 64 + 1, 0);
        for (mine, theirs) in self.used.iter_mut().zip(&other.used) {
            self.in_use += (theirs & !*mine).count_ones() as u16;
            *mine |= theirs;
        }
        self.last = other.last;
    }

    /// Frees an id; `next_chunk` is the id that its next chunk would have had.
    pub(crate) fn free(&mut self, id: u16, next_chunk: u32) {
        let (word, bit) = (usize::from(id / 64), id % 64);
        if let Some(used) = self.used.get_mut(word)
            && *used >> bit & 1 == 1
        {
            *used &= !(1 << bit);
            self.in_use -= 1;
            self.retired.insert(id, next_chunk);
        }
    }
}
