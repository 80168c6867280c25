//! Sequences by id.

use std::collections::HashMap;

/// Services count sequences up, so that most ids are below this number.
const LOW_IDS: u32 = 1 << 16;

/// Places of sequences in a list, by sequence id.
#[derive(Debug, Default)]
pub(super) struct SequencePlaces {
    /// The places of low ids, each one more than it is; 0 is none.
    low: Vec<u32>,
    high: HashMap<u32, u32>,
}

impl SequencePlaces {
    /// Returns the place of a sequence.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<usize> {
        match id < LOW_IDS {
            true => (*self.low.get(id as usize)?).checked_sub(1),
            false => self.high.get(&id).copied(),
        }
        .map(|place| place as usize)
    }

    /// Notes the place of a sequence that has none.
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
