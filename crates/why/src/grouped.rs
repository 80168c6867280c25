//! Items of many threads or CPUs, grouped.

/// Items grouped by a number, such as the thread or the CPU that they belong to.
///
/// A large trace has tens of millions of items. They are never in memory twice.
#[derive(Debug, Clone)]
pub(crate) struct Grouped<T> {
    groups: Vec<Vec<T>>,
}

impl<T> Default for Grouped<T> {
    fn default() -> Self {
        Self { groups: Vec::new() }
    }
}

impl<T> FromIterator<(u32, T)> for Grouped<T> {
    /// Groups items by their first parts. Items of a group keep their order.
    fn from_iter<I: IntoIterator<Item = (u32, T)>>(keyed: I) -> Self {
        let mut all = Self::default();
        for (key, item) in keyed {
            all.push(key, item);
        }
        all.shrink();
        all
    }
}

impl<T> Grouped<T> {
    /// Returns empty groups with memory for as many items as these keys say.
    pub(crate) fn sized_for(keys: impl IntoIterator<Item = u32>) -> Self {
        let mut counts: Vec<usize> = Vec::new();
        for key in keys {
            let key = key as usize;
            if counts.len() <= key {
                counts.resize(key + 1, 0);
            }
            counts[key] += 1;
        }
        Self {
            groups: counts.into_iter().map(Vec::with_capacity).collect(),
        }
    }

    /// Adds an item to the end of a group.
    pub(crate) fn push(&mut self, key: u32, item: T) {
        self.group(key).push(item);
    }

    /// Returns a group, which may be empty.
    pub(crate) fn group(&mut self, key: u32) -> &mut Vec<T> {
        let key = key as usize;
        if self.groups.len() <= key {
            self.groups.resize_with(key + 1, Vec::new);
        }
        &mut self.groups[key]
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.groups.iter_mut().for_each(Vec::shrink_to_fit);
    }

    /// Returns the items of a group, in order.
    pub(crate) fn of(&self, key: u32) -> &[T] {
        self.groups.get(key as usize).map_or(&[], Vec::as_slice)
    }

    /// Calls `each` for the number and the items of each group.
    pub(crate) fn for_each_group(&mut self, mut each: impl FnMut(u32, &mut Vec<T>)) {
        for (key, items) in (0..).zip(&mut self.groups) {
            each(key, items);
        }
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let items = self.groups.iter().map(Vec::capacity).sum::<usize>();
        items * size_of::<T>() + self.groups.capacity() * size_of::<Vec<T>>()
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> u32 {
        self.groups.len() as u32
    }

    /// Returns true if there are no items.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.iter().all(Vec::is_empty)
    }
}
