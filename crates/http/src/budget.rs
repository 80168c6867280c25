//! The memory that clients can make a server use, in all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The smallest memory of a buffer that is not empty.
const SMALLEST: usize = 16 << 10;

/// A number of bytes that buffers share.
#[derive(Debug, Clone)]
pub struct Budget(Arc<State>);

#[derive(Debug)]
struct State {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// Returns a budget of this many bytes.
    pub fn new(limit: u64) -> Self {
        let used = AtomicU64::new(0);
        Self(Arc::new(State { limit, used }))
    }

    /// Returns the number of bytes that buffers use.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Replaces the share of a buffer. Returns false, and changes nothing, if that is too much.
    fn replace(&self, old: u64, new: u64) -> bool {
        let replaced = |used: u64| {
            let used = (used - old).checked_add(new)?;
            // A buffer may always become smaller.
            (used <= self.0.limit || new <= old).then_some(used)
        };
        let used = &self.0.used;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, replaced)
            .is_ok()
    }
}

/// The budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverBudget;

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the requests need more memory than the limit")
    }
}

impl std::error::Error for OverBudget {}

/// Bytes whose memory counts in a budget.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    budget: Budget,
    charged: u64,
}

impl Buffer {
    /// Returns an empty buffer.
    pub fn new(budget: &Budget) -> Self {
        Self {
            bytes: Vec::new(),
            budget: budget.clone(),
            charged: 0,
        }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds bytes. `expected` is the number that the buffer will contain in the end, if known: no
    /// more memory is taken than for that.
    ///
    /// # Errors
    ///
    /// Fails, and adds nothing, if the budget has no memory left.
    pub fn extend(&mut self, more: &[u8], expected: usize) -> Result<(), OverBudget> {
        let needed = self.bytes.len() + more.len();
        if needed > self.bytes.capacity() {
            let doubled = (2 * self.bytes.capacity()).max(SMALLEST);
            let capacity = doubled.min(expected).max(needed);
            if !self.charge(capacity) {
                return Err(OverBudget);
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// Removes the first bytes, and gives back memory that is no longer needed.
    pub fn drain(&mut self, count: usize) {
        self.bytes.drain(..count);
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        } else if self.bytes.len() < self.bytes.capacity() / 4 {
            self.bytes.shrink_to(SMALLEST);
        }
        self.charge(self.bytes.capacity());
    }

    fn charge(&mut self, capacity: usize) -> bool {
        let new = capacity as u64;
        let is_possible = self.budget.replace(self.charged, new);
        if is_possible {
            self.charged = new;
        }
        is_possible
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.budget.replace(self.charged, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_share_a_budget_and_give_it_back() {
        let budget = Budget::new(100_000);
        let mut one = Buffer::new(&budget);
        let mut other = Buffer::new(&budget);
        one.extend(&[1; 60_000], 60_000).expect("memory");
        assert_eq!(other.extend(&[2; 50_000], 50_000), Err(OverBudget));
        other.extend(&[2; 30_000], 30_000).expect("memory");
        assert_eq!((one.bytes().len(), other.bytes().len()), (60_000, 30_000));
        one.drain(59_999);
        assert_eq!(one.bytes(), [1]);
        other.extend(&[2; 40_000], 70_000).expect("memory");
        drop((one, other));
        assert_eq!(budget.used(), 0);
    }
}
