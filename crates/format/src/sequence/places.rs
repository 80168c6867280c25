//! Indices of sequences by id.

use std::collections::HashMap;

/// The limit below which most sequence ids are, since services count them up.
const LOW_IDS: u32 = 1 << 16;

/// Indices of sequences in a list, by sequence id.
#[derive(Debug, Default)]
pub(super) struct SequencePlaces {
    /// The indices for low ids, plus one; 0 is none.
    low: Vec<u32>,
    high: HashMap<u32, u32>,
}

impl SequencePlaces {
    /// Returns the index of a sequence.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<usize> {
        if id < LOW_IDS {
            (*self.low.get(id as usize)?).checked_sub(1)
        } else {
            self.high.get(&id).copied()
        }
        .map(|place| place as usize)
    }

    /// Stores the index of a new sequence.
    pub(super) fn insert(&mut self, id: u32, place: usize) {
        let place = place as u32;
        if id >= LOW_IDS {
            self.high.insert(id, place);
            return;
        }
        let index = id as usize;
        if self.low.len() <= index {
            self.low.resize(index + 1, 0);
        }
        self.low[index] = place + 1;
    }
}
