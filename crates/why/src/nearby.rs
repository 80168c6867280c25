//! Searches in lists that begin near the result of the search before.

/// The index in a list at which a search ended, and the thread or CPU whose list it is. Parts of an
/// interval are in the order of time, so the next result is mostly near.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nearby {
    of: u32,
    at: usize,
}

impl Nearby {
    /// Returns the number of first items of a list that are `before`, as `partition_point` does.
    pub(crate) fn partition_point<T>(
        &mut self,
        of: u32,
        all: &[T],
        before: impl Fn(&T) -> bool,
    ) -> usize {
        let from = if self.of == of { self.at } else { 0 };
        let point = partition_point_from(all, from, before);
        *self = Self { of, at: point };
        point
    }
}

/// Searches from an index on, in steps that double.
fn partition_point_from<T>(all: &[T], from: usize, before: impl Fn(&T) -> bool) -> usize {
    let is_later = from
        .checked_sub(1)
        .is_none_or(|last| all.get(last).is_some_and(&before));
    let mut low = if is_later { from } else { 0 };
    let mut step = 1;
    while all.get(low + step - 1).is_some_and(&before) {
        low += step;
        step *= 2;
    }
    let high = all.len().min(low + step);
    low + all[low..high].partition_point(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_a_search_of_the_whole_list_finds() {
        for len in 0..20_u32 {
            let all: Vec<u32> = (0..len).map(|it| it / 2).collect();
            for from in 0..25 {
                for limit in 0..12 {
                    let before = |it: &u32| *it < limit;
                    let point = all.partition_point(before);
                    assert_eq!(partition_point_from(&all, from, before), point);
                }
            }
        }
        let (first, second) = ([1, 2, 3, 4], [10, 20]);
        let mut nearby = Nearby::default();
        assert_eq!(nearby.partition_point(0, &first, |it| *it < 4), 3);
        assert_eq!(nearby.partition_point(1, &second, |it| *it < 15), 1);
        assert_eq!(nearby.partition_point(1, &second, |it| *it < 5), 0);
        assert_eq!(nearby.partition_point(0, &first, |it| *it < 9), 4);
    }
}
