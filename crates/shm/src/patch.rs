//! Lengths that become known after their chunk was released.

use std::collections::VecDeque;

#[derive(Debug)]
struct Hole {
    chunk_id: u32,
    offset: u16,
    data: Option<[u8; 4]>,
}

/// A hole that has been filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilledHole {
    pub(crate) chunk_id: u32,
    pub(crate) offset: u16,
    pub(crate) data: [u8; 4],
}

/// The holes left by one writer, oldest first. Holes leave the list in order, once they are filled.
#[derive(Debug, Default)]
pub(crate) struct PatchList {
    holes: VecDeque<Hole>,
    /// The number of holes that have left the list, which is the number of the first one in it.
    gone: u64,
}

impl PatchList {
    /// Adds a hole and returns its number.
    pub(crate) fn push(&mut self, chunk_id: u32, offset: u16) -> u64 {
        self.holes.push_back(Hole {
            chunk_id,
            offset,
            data: None,
        });
        self.gone + self.holes.len() as u64 - 1
    }

    /// Fills a hole, if it is still in the list.
    pub(crate) fn fill(&mut self, number: u64, data: [u8; 4]) {
        let index = number
            .checked_sub(self.gone)
            .and_then(|index| usize::try_from(index).ok());
        if let Some(hole) = index.and_then(|index| self.holes.get_mut(index)) {
            hole.data = Some(data);
        }
    }

    /// Returns true if the first hole is filled.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.holes.front().is_some_and(|hole| hole.data.is_some())
    }

    /// Removes the first hole if it is filled.
    pub(crate) fn pop_ready(&mut self) -> Option<FilledHole> {
        let Hole {
            chunk_id,
            offset,
            data: Some(data),
        } = *self.holes.front()?
        else {
            return None;
        };
        self.holes.pop_front();
        self.gone += 1;
        Some(FilledHole {
            chunk_id,
            offset,
            data,
        })
    }

    /// Returns true if the first hole in the list, filled or not, is in this chunk.
    pub(crate) fn continues_in(&self, chunk_id: u32) -> bool {
        self.holes
            .front()
            .is_some_and(|hole| hole.chunk_id == chunk_id)
    }
}
