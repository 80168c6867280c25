//! Numbers that are given once.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of the block of numbers that a thread takes at once.
const BLOCK: u64 = 1024;

/// Above the numbers that programs choose themselves, mostly.
static NEXT: AtomicU64 = AtomicU64::new(1 << 48);

thread_local! {
    static NUMBERS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A number for a [`Flow`](crate::Flow) or the like, which this function gives to nobody else in
/// this process.
///
/// It takes memory that threads share only once in a thousand calls.
#[inline]
pub fn unique() -> u64 {
    let (mut next, mut end) = NUMBERS.get();
    if next == end {
        next = NEXT.fetch_add(BLOCK, Ordering::Relaxed);
        end = next + BLOCK;
    }
    NUMBERS.set((next + 1, end));
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once() {
        let take = || (0..2000).map(|_| unique()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(take)).collect();
        let mut all: Vec<u64> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8000);
    }
}
