//! Items of many threads or CPUs, grouped.

/// Items grouped by a number, such as the thread or the CPU that they belong to.
#[derive(Debug, Clone)]
pub(crate) struct Grouped<T> {
    /// The end of each group in `items`.
    ends: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Grouped<T> {
    fn default() -> Self {
        Self {
            ends: Vec::new(),
            items: Vec::new(),
        }
    }
}

impl<T: Copy> Grouped<T> {
    /// Groups items by their first parts. Items of a group keep their order.
    pub(crate) fn new(keyed: &[(u32, T)]) -> Self {
        let groups = keyed.iter().map(|(key, _)| *key as usize + 1).max();
        let mut ends = vec![0_u32; groups.unwrap_or(0)];
        for (key, _) in keyed {
            ends[*key as usize] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            let count = *end;
            *end = total;
            total += count;
        }
        let Some((_, first)) = keyed.first() else {
            return Self::default();
        };
        let mut items = vec![*first; keyed.len()];
        for (key, item) in keyed {
            let next = &mut ends[*key as usize];
            items[*next as usize] = *item;
            *next += 1;
        }
        Self { ends, items }
    }

    /// Returns the items of a group, in order.
    pub(crate) fn of(&self, key: u32) -> &[T] {
        let key = key as usize;
        let Some(end) = self.ends.get(key) else {
            return &[];
        };
        let start = if key == 0 { 0 } else { self.ends[key - 1] };
        &self.items[start as usize..*end as usize]
    }

    /// Calls `each` for the items of each group.
    pub(crate) fn for_each_group(&mut self, mut each: impl FnMut(&mut [T])) {
        let mut start = 0;
        for end in &self.ends {
            each(&mut self.items[start..*end as usize]);
            start = *end as usize;
        }
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Returns true if there are no items.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
