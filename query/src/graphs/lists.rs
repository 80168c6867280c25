//! Nodes by number, and lists of edges for each of them.

/// Ids in ascending order, whose indexes are the numbers of nodes.
#[derive(Debug)]
pub(super) struct Numbering {
    ids: Vec<i64>,
    /// The number of each id from the smallest one on, if ids are close together.
    table: Vec<u32>,
}

/// The number of an id that does not exist.
const ABSENT: u32 = u32::MAX;

impl Numbering {
    /// Returns numbers for ids, which may come several times.
    pub(super) fn new(mut ids: Vec<i64>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let span = match (ids.first(), ids.last()) {
            (Some(first), Some(last)) => last.abs_diff(*first),
            _ => 0,
        };
        let mut table = Vec::new();
        if span < 4 * ids.len() as u64 + 1024 {
            table.resize(span as usize + 1, ABSENT);
            for (number, id) in ids.iter().enumerate() {
                table[id.abs_diff(ids[0]) as usize] = number as u32;
            }
        }
        Self { ids, table }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn id(&self, number: u32) -> i64 {
        self.ids[number as usize]
    }

    pub(super) fn number(&self, id: i64) -> Option<u32> {
        let first = *self.ids.first()?;
        if self.table.is_empty() {
            return self.ids.binary_search(&id).ok().map(|at| at as u32);
        }
        if id < first {
            return None;
        }
        let number = self.table.get(usize::try_from(id.abs_diff(first)).ok()?)?;
        (*number != ABSENT).then_some(*number)
    }
}

/// A list for each number from 0 on, one after another in memory.
#[derive(Debug)]
pub(super) struct Lists<T> {
    /// The index of the first value of each list, and of the end.
    starts: Vec<usize>,
    values: Vec<T>,
}

impl<T: Copy + Default> Lists<T> {
    /// Returns lists of pairs `number, value`. Values of a list keep their order.
    pub(super) fn new(count: usize, pairs: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        let mut starts = vec![0; count + 1];
        for (number, _) in pairs.clone() {
            starts[number as usize + 1] += 1;
        }
        for number in 0..count {
            starts[number + 1] += starts[number];
        }
        let mut values = vec![T::default(); starts[count]];
        let mut next = starts.clone();
        for (number, value) in pairs {
            let at = &mut next[number as usize];
            values[*at] = value;
            *at += 1;
        }
        Self { starts, values }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn of(&self, number: u32) -> &[T] {
        let number = number as usize;
        &self.values[self.starts[number]..self.starts[number + 1]]
    }
}
