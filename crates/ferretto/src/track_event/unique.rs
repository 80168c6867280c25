//! Unique ids.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of ids that a thread reserves at once.
const BLOCK: u64 = 1024;

/// The next free id. Starts above the ids that programs usually choose.
static NEXT: AtomicU64 = AtomicU64::new(1 << 48);

thread_local! {
    static NUMBERS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Returns an id, for example for a [`Flow`](crate::Flow), that this function returns only once in
/// this process.
///
/// Accesses memory shared between threads only once in a thousand calls.
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
    fn ids_are_unique() {
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
