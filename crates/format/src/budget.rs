//! A shared memory budget of tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The memory budget of a reader's tables, shared by its clones.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    left: AtomicUsize,
    refused: AtomicU64,
}

impl Budget {
    /// Creates a budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Account {
            left: AtomicUsize::new(bytes),
            refused: AtomicU64::new(0),
        }))
    }

    /// Reserves memory for an entry. Returns false, and counts the refusal, if there is none left:
    /// the entry must be dropped.
    pub fn take(&self, bytes: usize) -> bool {
        let left = &self.0.left;
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes)
        });
        if taken.is_err() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Returns reserved bytes.
    pub fn give_back(&self, bytes: usize) {
        self.0.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of refusals.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

/// Returns the memory of a hash table entry, including the overhead of a growing table, without
/// data that it points to.
pub const fn entry_bytes<T>() -> usize {
    3 * (size_of::<T>() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_budget() {
        let budget = Budget::new(10);
        let other = budget.clone();
        assert!(budget.take(6) && !other.take(5) && other.take(4));
        assert_eq!((budget.refused(), budget.take(0)), (1, true));
        other.give_back(6);
        assert!(budget.take(6) && !budget.take(1));
    }
}
