//! Samples whose program is not yet known.
//!
//! A new process may have executed a program between the sample and now, and the record of that may
//! be in the ring of another CPU. So its samples wait until every ring has been read once more.

use crate::unwinding::Unwindable;

/// The largest number of waiting samples.
const MAX_WAITING: usize = 1024;

/// The waiting samples of this round and of the previous one.
#[derive(Debug, Default)]
pub(super) struct PendingExec {
    rounds: [Vec<Unwindable>; 2],
}

impl PendingExec {
    /// Adds a sample, or returns it if too many are waiting.
    pub(super) fn put(&mut self, unwindable: Unwindable) -> Result<(), Box<Unwindable>> {
        if self.rounds.iter().map(Vec::len).sum::<usize>() >= MAX_WAITING {
            return Err(Box::new(unwindable));
        }
        self.rounds[0].push(unwindable);
        Ok(())
    }

    /// Ends a round, in which every ring has been read. Returns the samples that have waited long
    /// enough.
    pub(super) fn end_of_round(&mut self) -> Vec<Unwindable> {
        self.rounds.swap(0, 1);
        std::mem::take(&mut self.rounds[0])
    }

    /// Takes all samples.
    pub(super) fn all(&mut self) -> Vec<Unwindable> {
        let mut all = self.end_of_round();
        all.append(&mut self.rounds[1]);
        all
    }
}
