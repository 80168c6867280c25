//! A pool of memory for stack copies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The largest number of free buffers in the pool.
const MAX_KEPT: usize = 64;
/// The size above which buffers are not kept.
const MAX_KEPT_SIZE: usize = 16 << 10;

/// Copies stacks, and counts the bytes of the copies.
#[derive(Debug, Default)]
pub(crate) struct StackPool {
    free: Mutex<Vec<Vec<u8>>>,
    bytes: AtomicU64,
}

impl StackPool {
    /// Returns the total size of the copies in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn copy(&self, stack: &[u8]) -> Vec<u8> {
        self.bytes.fetch_add(stack.len() as u64, Ordering::Relaxed);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut copy = free.pop().unwrap_or_default();
        drop(free);
        copy.extend_from_slice(stack);
        copy
    }

    pub(crate) fn give_back(&self, mut copy: Vec<u8>) {
        self.bytes.fetch_sub(copy.len() as u64, Ordering::Relaxed);
        copy.clear();
        if copy.capacity() == 0 || copy.capacity() > MAX_KEPT_SIZE {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MAX_KEPT {
            free.push(copy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_032_the_footprint_returns_to_zero() {
        let pool = StackPool::default();
        let copies = [
            pool.copy(&[1; 100]),
            pool.copy(&[2; 60_000]),
            pool.copy(&[]),
        ];
        assert_eq!(pool.bytes(), 60_100);
        for copy in copies {
            pool.give_back(copy);
        }
        assert_eq!(pool.bytes(), 0);
        assert_eq!(pool.copy(&[3; 50]), [3; 50]);
    }
}
