//! A queue in which who had least is next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keys in the order of the work each has had.
#[derive(Debug)]
pub(super) struct Line<K> {
    waiting: BinaryHeap<Reverse<(u64, u64, K)>>,
    /// The work that the last one that was taken had had.
    now: u64,
    /// Counts up, so that equals are taken in the order they came in.
    order: u64,
}

impl<K: Ord> Default for Line<K> {
    fn default() -> Self {
        Self {
            waiting: BinaryHeap::new(),
            now: 0,
            order: 0,
        }
    }
}

impl<K: Ord> Line<K> {
    /// Inserts a key that has had so much work, and returns its position.
    pub(super) fn put(&mut self, had: u64, key: K) -> u64 {
        let had = had.max(self.now);
        self.order += 1;
        self.waiting.push(Reverse((had, self.order, key)));
        had
    }

    /// Takes out the key that had least.
    pub(super) fn take(&mut self) -> Option<K> {
        let Reverse((had, _, key)) = self.waiting.pop()?;
        self.now = had;
        Some(key)
    }

    /// Takes a key out before it is its turn.
    pub(super) fn remove(&mut self, key: &K) {
        self.waiting.retain(|Reverse((_, _, other))| other != key);
    }

    /// Returns the position of the last key that was taken.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
