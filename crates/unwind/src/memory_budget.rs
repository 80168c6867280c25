//! The memory budget of indexes of files.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The bytes that tables of files may take together, and those that they take.
pub(crate) struct MemoryBudget {
    used: AtomicUsize,
    limit: usize,
    /// Counts uses, to find the least recently used.
    clock: AtomicU64,
    /// Drops caches that can be rebuilt, until not more than so many bytes are left, if possible.
    make_room: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
}

impl std::fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("used", &self.used)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
            clock: AtomicU64::new(1),
            make_room: OnceLock::new(),
        })
    }

    /// Has `make_room` called where there is too little.
    pub(crate) fn on_shortage(&self, make_room: impl Fn(usize) + Send + Sync + 'static) {
        // A second one would be of the same cache.
        let _ = self.make_room.set(Box::new(make_room));
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns whether entries that nobody uses should make room for others.
    pub(crate) fn is_scarce(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// The time, in uses.
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn give_back(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Takes that much, if there is as much or room can be made.
    pub(crate) fn take(&self, amount: usize) -> bool {
        if amount > self.limit {
            return false;
        }
        if self.try_take(amount) {
            return true;
        }
        if let Some(make_room) = self.make_room.get() {
            // Half of it, so that it is not to be done again at once.
            make_room((self.limit / 2).min(self.limit - amount));
        }
        self.try_take(amount)
    }

    fn try_take(&self, amount: usize) -> bool {
        let before = self.used.fetch_add(amount, Ordering::Relaxed);
        let fits = before.saturating_add(amount) <= self.limit;
        if !fits {
            self.give_back(amount);
        }
        fits
    }
}
