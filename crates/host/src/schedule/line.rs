//! A queue ordered by the work that each key has had, least first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keys in the order of the work that each has had.
#[derive(Debug)]
pub(super) struct Line<K> {
    waiting: BinaryHeap<Reverse<(u64, u64, K)>>,
    /// The work of the key that was taken last.
    now: u64,
    /// A counter that keeps equal keys in the order of insertion.
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
    /// Inserts a key that has had this much work, and returns its position.
    pub(super) fn put(&mut self, had: u64, key: K) -> u64 {
        let had = had.max(self.now);
        self.order += 1;
        self.waiting.push(Reverse((had, self.order, key)));
        had
    }

    /// Takes the key with the least work.
    pub(super) fn take(&mut self) -> Option<K> {
        let Reverse((had, _, key)) = self.waiting.pop()?;
        self.now = had;
        Some(key)
    }

    /// Removes a key before its turn.
    pub(super) fn remove(&mut self, key: &K) {
        self.waiting.retain(|Reverse((_, _, other))| other != key);
    }

    /// Returns the position of the key that was taken last.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
