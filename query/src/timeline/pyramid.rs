//! The best element of any range of a list, in logarithmic time.

/// The number of elements that one of the next level stands for.
const FACTOR: usize = 16;

/// A list of elements, and levels above it: each element of a level is the best of sixteen of the
/// level below.
#[derive(Debug)]
pub(super) struct Pyramid<T> {
    /// The elements first. Levels end when one has at most sixteen elements.
    levels: Vec<Vec<T>>,
}

impl<T: Copy> Pyramid<T> {
    /// Returns the pyramid of elements. `better` returns one of two, of which the first is the one
    /// with the lower index.
    pub(super) fn new(elements: Vec<T>, better: impl Fn(T, T) -> T) -> Self {
        let mut levels = vec![elements];
        while let Some(level) = levels.last().filter(|level| level.len() > FACTOR) {
            let blocks = level.chunks(FACTOR);
            let next = blocks.filter_map(|block| block.iter().copied().reduce(&better));
            levels.push(next.collect());
        }
        Self { levels }
    }

    /// Returns the best element of a range; `None` if it is empty.
    pub(super) fn best(&self, from: usize, past: usize, better: impl Fn(T, T) -> T) -> Option<T> {
        let (mut left, mut right): (Option<T>, Option<T>) = (None, None);
        let (mut from, mut past) = (from, past.min(self.levels[0].len()));
        for level in &self.levels {
            // The elements at both ends that are no whole block of the next level.
            let first = from.next_multiple_of(FACTOR);
            let last = past - past % FACTOR;
            let is_last = first >= last || past - from <= FACTOR;
            let (head, tail) = if is_last {
                (from..past.max(from), past..past)
            } else {
                (from..first, last..past)
            };
            let head = level[head].iter().copied().reduce(&better);
            left = joined(left, head, &better);
            let tail = level[tail].iter().copied().reduce(&better);
            right = joined(tail, right, &better);
            if is_last {
                break;
            }
            (from, past) = (first / FACTOR, last / FACTOR);
        }
        joined(left, right, &better)
    }

    /// Returns an element.
    pub(super) fn get(&self, index: usize) -> T {
        self.levels[0][index]
    }
}

fn joined<T>(a: Option<T>, b: Option<T>, better: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(better(a, b)),
        (a, b) => a.or(b),
    }
}
