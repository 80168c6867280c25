//! Memory that tables may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Room for the tables of one reader, shared by its clones.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    left: AtomicUsize,
    refused: AtomicU64,
}

impl Budget {
    /// Returns a budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Account {
            left: AtomicUsize::new(bytes),
            refused: AtomicU64::new(0),
        }))
    }

    /// Takes room for an entry that is about to be kept. If there is none, that is counted, and it
    /// must be left out.
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

    /// Gives bytes back that were taken.
    pub fn give_back(&self, bytes: usize) {
        self.0.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns how often there was no room.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

/// Returns the bytes of an entry of a hash table, that of a table that is growing included, without
/// what it points to.
pub const fn entry_bytes<T>() -> usize {
    3 * (size_of::<T>() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_take_from_one_account() {
        let budget = Budget::new(10);
        let other = budget.clone();
        assert!(budget.take(6) && !other.take(5) && other.take(4));
        assert_eq!((budget.refused(), budget.take(0)), (1, true));
        other.give_back(6);
        assert!(budget.take(6) && !budget.take(1));
    }
}
