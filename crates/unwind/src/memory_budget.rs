//! The memory budget of indexes of files.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The limit of memory for all tables of files, and its current use.
pub(crate) struct MemoryBudget {
    used: AtomicUsize,
    limit: usize,
    /// A counter of uses, to find the least recently used tables.
    clock: AtomicU64,
    /// Drops tables until at most the given number of bytes is in use, if possible.
    shrink: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
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
            shrink: OnceLock::new(),
        })
    }

    /// Sets the function to call when memory is short.
    pub(crate) fn on_shortage(&self, shrink: impl Fn(usize) + Send + Sync + 'static) {
        // A second function would be that of the same cache.
        let _ = self.shrink.set(Box::new(shrink));
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns true if unused entries should be dropped.
    pub(crate) fn is_scarce(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// Returns the current time as a number of uses.
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn give_back(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Reserves memory, and drops other tables if necessary. Returns false if there is not enough.
    pub(crate) fn take(&self, amount: usize) -> bool {
        if amount > self.limit {
            return false;
        }
        if self.try_take(amount) {
            return true;
        }
        if let Some(shrink) = self.shrink.get() {
            // Frees half, to avoid another shortage soon.
            shrink((self.limit / 2).min(self.limit - amount));
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
