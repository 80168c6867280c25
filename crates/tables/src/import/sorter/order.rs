//! The queues of a sorter by their first events.

/// The first time of a queue, its rank, and its place.
pub(super) type Entry = (i64, (u32, u64), usize);

/// Queues that have events, as a heap: each entry is before the two that are behind it.
#[derive(Debug, Default)]
pub(super) struct Order(Vec<Entry>);

impl Order {
    /// Appends a queue.
    pub(super) fn push(&mut self, entry: Entry) {
        let heap = &mut self.0;
        heap.push(entry);
        let mut place = heap.len() - 1;
        while place > 0 && heap[place] < heap[(place - 1) / 2] {
            heap.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    /// Returns the place of the queue that comes first.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.0.first().map(|(.., place)| *place)
    }

    /// Returns the time of the queue that comes second; the latest one if there is none.
    #[inline]
    pub(super) fn second(&self) -> i64 {
        let next = self.0.iter().skip(1).take(2);
        next.map(|(min, ..)| *min).min().unwrap_or(i64::MAX)
    }

    /// The queue that came first has another first time.
    #[inline]
    pub(super) fn update_first(&mut self, min: i64) {
        let Some(first) = self.0.first_mut() else {
            return;
        };
        first.0 = min;
        let entry = *first;
        self.sink(entry);
    }

    /// Removes the queue that came first.
    pub(super) fn remove_first(&mut self) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.sink(last);
        }
    }

    /// Puts an entry into the first place, and from there to where it belongs.
    #[inline]
    fn sink(&mut self, entry: Entry) {
        let heap = &mut self.0[..];
        let mut place = 0;
        loop {
            let mut next = 2 * place + 1;
            if next >= heap.len() {
                break;
            }
            if next + 1 < heap.len() && heap[next + 1] < heap[next] {
                next += 1;
            }
            if entry <= heap[next] {
                break;
            }
            heap[place] = heap[next];
            place = next;
        }
        heap[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_is_always_the_least() {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from(state >> 24)
        };
        let (mut order, mut times) = (Order::default(), Vec::new());
        for place in 0..50 {
            let min = next();
            order.push((min, (0, 0), place));
            times.push(Some(min));
        }
        for round in 0..400 {
            let mut all: Vec<_> = times.iter().flatten().copied().collect();
            all.sort_unstable();
            let Some(place) = order.first() else {
                assert!(all.is_empty());
                break;
            };
            let first = times.iter().position(|time| *time == Some(all[0]));
            assert_eq!(Some(place), first);
            assert_eq!(order.second(), all.get(1).copied().unwrap_or(i64::MAX));
            if round % 4 == 0 {
                order.remove_first();
                times[place] = None;
            } else {
                let min = all[0] + next();
                order.update_first(min);
                times[place] = Some(min);
            }
        }
        assert!(order.first().is_none());
    }
}
