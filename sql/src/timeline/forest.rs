//! The best element of any range of a list, in logarithmic time.

/// A list of elements, and the winners of all aligned ranges.
#[derive(Debug)]
pub(super) struct Forest<T> {
    /// The winner of the range of a node; nodes `n` and `n + 1` are below node `n / 2`. The second
    /// half are the elements.
    nodes: Vec<T>,
}

impl<T: Copy> Forest<T> {
    /// Returns the forest of elements. `better` returns one of two, of which the first is the one
    /// with the lower index.
    pub(super) fn new(elements: &[T], better: impl Fn(T, T) -> T) -> Self {
        let count = elements.len();
        let mut nodes = Vec::with_capacity(2 * count);
        nodes.extend_from_slice(elements);
        nodes.extend_from_slice(elements);
        for node in (1..count).rev() {
            nodes[node] = better(nodes[2 * node], nodes[2 * node + 1]);
        }
        Self { nodes }
    }

    /// Returns the winner of a range; `None` if it is empty.
    pub(super) fn best(&self, from: usize, past: usize, better: impl Fn(T, T) -> T) -> Option<T> {
        let count = self.nodes.len() / 2;
        let (mut low, mut high) = (from + count, past.min(count) + count);
        let (mut left, mut right): (Option<T>, Option<T>) = (None, None);
        while low < high {
            if low & 1 == 1 {
                let node = self.nodes[low];
                left = Some(left.map_or(node, |best| better(best, node)));
                low += 1;
            }
            if high & 1 == 1 {
                high -= 1;
                let node = self.nodes[high];
                right = Some(right.map_or(node, |best| better(node, best)));
            }
            low /= 2;
            high /= 2;
        }
        match (left, right) {
            (Some(left), Some(right)) => Some(better(left, right)),
            (left, right) => left.or(right),
        }
    }

    /// Returns an element.
    pub(super) fn get(&self, index: usize) -> T {
        self.nodes[self.nodes.len() / 2 + index]
    }
}
