//! Sorts the queues of a sorter by their first events.

/// The first time of a queue, its rank, and its index.
pub(super) type Entry = (i64, (u32, u64), usize);

/// The queues with events as a heap: each entry precedes its two children.
///
/// An entry is one number, so that two are compared without a branch: the first time in the upper
/// half, and the position of the queue by rank and index in the lower half.
#[derive(Debug, Default)]
pub(super) struct Order {
    heap: Vec<u128>,
    /// The indexes of queues by their positions.
    indexes: Vec<usize>,
}

/// The bit that maps signed times to unsigned numbers of the same order.
const SIGN: u64 = 1 << 63;

fn join(min: i64, number: usize) -> u128 {
    u128::from(min as u64 ^ SIGN) << 64 | number as u128
}

fn time(entry: u128) -> i64 {
    ((entry >> 64) as u64 ^ SIGN) as i64
}

impl Order {
    /// Returns the heap of these queues.
    pub(super) fn of(mut queues: Vec<Entry>) -> Self {
        queues.sort_unstable_by_key(|(_, rank, index)| (*rank, *index));
        let entries = queues.iter().enumerate();
        let mut heap: Vec<u128> = entries
            .map(|(number, (min, ..))| join(*min, number))
            .collect();
        // A sorted list is a heap.
        heap.sort_unstable();
        Self {
            heap,
            indexes: queues.iter().map(|(.., index)| *index).collect(),
        }
    }

    /// Returns the index of the first queue.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        let entry = self.heap.first()?;
        self.indexes.get(*entry as u64 as usize).copied()
    }

    /// Returns the time of the second queue, or the maximum time if there is none.
    #[inline]
    pub(super) fn second(&self) -> i64 {
        match self.heap[..] {
            [_, left, right, ..] => time(left.min(right)),
            [_, only] => time(only),
            _ => i64::MAX,
        }
    }

    /// Updates the first time of the first queue.
    #[inline]
    pub(super) fn update_first(&mut self, min: i64) {
        let Some(first) = self.heap.first() else {
            return;
        };
        let entry = join(min, *first as u64 as usize);
        self.sink(entry);
    }

    /// Removes the first queue.
    pub(super) fn remove_first(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sink(last);
        }
    }

    /// Inserts an entry at the top of the heap, and moves it down to its place.
    ///
    /// That is mostly near the bottom. So the gap moves down to the bottom without comparing with
    /// the entry, and up again while the entry precedes the parent.
    #[inline]
    fn sink(&mut self, entry: u128) {
        let heap = &mut self.heap[..];
        let mut index = 0;
        while let Some([left, right]) = heap.get(2 * index + 1..2 * index + 3) {
            let next = 2 * index + 1 + usize::from(right < left);
            heap[index] = heap[next];
            index = next;
        }
        if let Some(only) = heap.get(2 * index + 1) {
            heap[index] = *only;
            index = 2 * index + 1;
        }
        while index > 0 && entry < heap[(index - 1) / 2] {
            heap[index] = heap[(index - 1) / 2];
            index = (index - 1) / 2;
        }
        heap[index] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_testing::Random;

    #[test]
    fn the_first_entry_is_always_the_least() {
        let mut random = Random(7);
        let mut next = || random.below(256) as i64;
        let mut times: Vec<Option<i64>> = (0..50).map(|_| Some(next() - 100)).collect();
        let queues = times.iter().enumerate();
        let queues = queues.filter_map(|(index, min)| Some(((*min)?, (0, 0), index)));
        let mut order = Order::of(queues.collect());
        for round in 0..400 {
            let mut all: Vec<_> = times.iter().flatten().copied().collect();
            all.sort_unstable();
            let Some(index) = order.first() else {
                assert!(all.is_empty());
                break;
            };
            let first = times.iter().position(|time| *time == Some(all[0]));
            assert_eq!(Some(index), first);
            assert_eq!(order.second(), all.get(1).copied().unwrap_or(i64::MAX));
            if round % 4 == 0 {
                order.remove_first();
                times[index] = None;
            } else {
                let min = all[0] + next();
                order.update_first(min);
                times[index] = Some(min);
            }
        }
        assert!(order.first().is_none());
    }

    #[test]
    fn of_equal_times_the_lower_rank_comes_first() {
        let queues = vec![
            (5, (1, 0), 0),
            (5, (0, 9), 1),
            (5, (0, 3), 2),
            (4, (7, 7), 3),
        ];
        let mut order = Order::of(queues);
        let mut indexes = Vec::new();
        while let Some(index) = order.first() {
            indexes.push(index);
            order.remove_first();
        }
        assert_eq!(indexes, [3, 2, 1, 0]);
    }
}
