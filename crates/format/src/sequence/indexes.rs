//! Indices of sequences by id.

use std::collections::HashMap;

/// The limit below which most sequence ids are, since services count them up.
const LOW_IDS: u32 = 1 << 16;

/// Indices of sequences in a list, by sequence id.
#[derive(Debug, Default)]
pub(super) struct SequenceIndexes {
    /// The indices for low ids, plus one; 0 is none.
    low: Vec<u32>,
    high: HashMap<u32, u32>,
}

impl SequenceIndexes {
    /// Returns the index of a sequence.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<usize> {
        if id < LOW_IDS {
            (*self.low.get(id as usize)?).checked_sub(1)
        } else {
            self.high.get(&id).copied()
        }
        .map(|sequence| sequence as usize)
    }

    /// Stores the index of a new sequence.
    pub(super) fn insert(&mut self, id: u32, sequence: usize) {
        let sequence = sequence as u32;
        if id >= LOW_IDS {
            self.high.insert(id, sequence);
            return;
        }
        let index = id as usize;
        if self.low.len() <= index {
            self.low.resize(index + 1, 0);
        }
        self.low[index] = sequence + 1;
    }
}
