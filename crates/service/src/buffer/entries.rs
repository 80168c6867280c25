//! The chunks of a sequence in their order, in blocks: a chunk that comes late only moves those of
//! its block.

use std::collections::VecDeque;

/// The number of chunks after which a block is split.
const BLOCK: usize = 1024;

/// A chunk in the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) id: u32,
    /// The position of its record.
    pub(super) at: u32,
    /// The offset of its last fragment when it was stored.
    pub(super) last: u16,
}

/// The chunks of a sequence by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    /// The first block. Almost all sequences have no other. It is empty only if there is no chunk.
    first: VecDeque<Entry>,
    /// The other blocks, if there are some.
    rest: Option<Box<Rest>>,
}

/// The blocks after the first, none of them empty.
#[derive(Debug, Clone, Default)]
struct Rest {
    blocks: VecDeque<VecDeque<Entry>>,
    /// The number of chunks in all of them.
    len: usize,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.rest.as_ref().map_or(0, |rest| rest.len)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&Entry> {
        self.first.front()
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&Entry> {
        let last = self.rest.as_ref().and_then(|rest| rest.blocks.back());
        last.unwrap_or(&self.first).back()
    }

    /// Returns the chunk at this index. Takes time for each block before it.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Entry> {
        if index < self.first.len() {
            return self.first.get(index);
        }
        let mut index = index - self.first.len();
        for block in self.rest.iter().flat_map(|rest| &rest.blocks) {
            if index < block.len() {
                return block.get(index);
            }
            index -= block.len();
        }
        None
    }

    /// Returns the index of the chunk with this key, or that at which it belongs. `key` ascends
    /// with the index, by one without gaps.
    pub(super) fn search(&self, wanted: u32, key: impl Fn(&Entry) -> u32) -> Result<usize, usize> {
        let is_before =
            |block: &VecDeque<Entry>| block.back().is_some_and(|last| key(last) < wanted);
        let Some(rest) = self.rest.as_ref().filter(|_| is_before(&self.first)) else {
            return search_block(&self.first, wanted, key);
        };
        let number = rest.blocks.partition_point(is_before);
        let skipped = rest.blocks.iter().take(number).map(VecDeque::len);
        let before = self.first.len() + skipped.sum::<usize>();
        match rest.blocks.get(number) {
            Some(block) => search_block(block, wanted, key)
                .map(|index| before + index)
                .map_err(|index| before + index),
            None => Err(before),
        }
    }

    #[inline]
    pub(super) fn push_back(&mut self, entry: Entry) {
        if self.rest.is_none() && self.first.len() < BLOCK {
            return self.first.push_back(entry);
        }
        let rest = self.rest.get_or_insert_default();
        rest.len += 1;
        match rest.blocks.back_mut() {
            Some(block) if block.len() < BLOCK => block.push_back(entry),
            _ => rest.blocks.push_back(VecDeque::from([entry])),
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.first.pop_front()?;
        if self.first.is_empty()
            && let Some(rest) = &mut self.rest
        {
            self.first = rest.blocks.pop_front().unwrap_or_default();
            rest.len -= self.first.len();
            if rest.blocks.is_empty() {
                self.rest = None;
            }
        }
        Some(entry)
    }

    /// Inserts a chunk before the one that is at this index now.
    pub(super) fn insert(&mut self, index: usize, entry: Entry) {
        if index >= self.len() {
            return self.push_back(entry);
        }
        if index <= self.first.len() {
            self.first.insert(index, entry);
            if self.first.len() > 2 * BLOCK {
                let half = self.first.split_off(BLOCK);
                let rest = self.rest.get_or_insert_default();
                rest.len += half.len();
                rest.blocks.push_front(half);
            }
            return;
        }
        let rest = self.rest.get_or_insert_default();
        let mut index = index - self.first.len();
        let mut number = 0;
        while let Some(block) = rest.blocks.get_mut(number) {
            if index > block.len() {
                index -= block.len();
                number += 1;
                continue;
            }
            block.insert(index, entry);
            rest.len += 1;
            if block.len() > 2 * BLOCK {
                let half = block.split_off(BLOCK);
                rest.blocks.insert(number + 1, half);
            }
            return;
        }
    }

    /// Returns the chunks after the first.
    pub(super) fn after_first(&self) -> impl Iterator<Item = &Entry> {
        let rest = self
            .rest
            .iter()
            .flat_map(|rest| rest.blocks.iter().flatten());
        self.first.iter().skip(1).chain(rest)
    }

    /// Returns the number of chunks for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        let rest = self.rest.iter().flat_map(|rest| &rest.blocks);
        self.first.capacity() + rest.map(VecDeque::capacity).sum::<usize>()
    }
}

fn search_block(
    block: &VecDeque<Entry>,
    wanted: u32,
    key: impl Fn(&Entry) -> u32,
) -> Result<usize, usize> {
    let first = block.front().map_or(0, &key);
    let guess = wanted.wrapping_sub(first) as usize;
    if block.get(guess).is_some_and(|entry| key(entry) == wanted) {
        return Ok(guess);
    }
    block.binary_search_by_key(&wanted, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32) -> Entry {
        Entry { id, at: 0, last: 0 }
    }

    #[test]
    fn chunks_stay_in_order_wherever_they_are_inserted() {
        let mut entries = Entries::default();
        let mut model = Vec::new();
        let mut random = 1_u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let id = (random >> 40) as u32;
            if random >> 62 == 0 && !model.is_empty() {
                let first = entries.pop_front().map(|entry| entry.id);
                assert_eq!(first, Some(model.remove(0)));
                continue;
            }
            let found = entries.search(id, |entry| entry.id);
            assert_eq!(found, model.binary_search(&id));
            if let Err(index) = found {
                entries.insert(index, entry(id));
                model.insert(index, id);
            }
        }
        assert!(entries.rest.is_some());
        assert_eq!(entries.len(), model.len());
        let back = entries.back().map(|entry| entry.id);
        assert_eq!(back.as_ref(), model.last());
        let rest: Vec<u32> = entries.after_first().map(|entry| entry.id).collect();
        assert_eq!(rest, model[1..]);
        for (index, id) in model.iter().enumerate() {
            assert_eq!(entries.get(index).map(|entry| entry.id), Some(*id));
        }
        while entries.pop_front().is_some() {}
        assert!(entries.is_empty() && entries.back().is_none());
    }

    #[test]
    fn a_chunk_in_the_middle_moves_only_those_of_its_block() {
        let mut entries = Entries::default();
        for id in 0..100_000 {
            entries.push_back(entry(2 * id));
        }
        for id in (0..100_000).rev() {
            let Err(index) = entries.search(2 * id + 1, |entry| entry.id) else {
                panic!("{id} is there");
            };
            entries.insert(index, entry(2 * id + 1));
        }
        let mut rest = entries.rest.iter().flat_map(|rest| &rest.blocks);
        assert!(rest.all(|block| block.len() <= 2 * BLOCK));
        assert!(entries.first.len() <= 2 * BLOCK && entries.len() == 200_000);
    }
}
