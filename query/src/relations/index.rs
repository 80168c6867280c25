//! Indexes of columns: the rows with each value.

use std::cmp::Ordering;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering as Memory};

use ferretto_tables::{ColumnView, Values};

use super::order::key_of;
use crate::limits::{Charge, Limits};

/// The index of a column, which is made when the column has been searched some times.
#[derive(Debug, Default)]
pub(super) struct Index {
    searches: AtomicU32,
    /// The rows with a value, in the order of values; `None` if there is no memory for them.
    rows: OnceLock<Option<Made>>,
}

/// The rows of an index, and their memory.
#[derive(Debug)]
struct Made {
    rows: Vec<u32>,
    _charge: Charge,
}

/// The way to find rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// Reading the column.
    Scan,
    /// Reading the column, while another thread makes the index.
    ScanAndMake,
    /// The index, which is made if it is not there.
    Index,
}

/// The number of searches after which an index pays.
const SEARCHES: u32 = 2;
/// The number of searches after which a search waits for the index of a large table.
const PATIENT: u32 = 24;
/// The number of rows from which a search does not wait for the index at first.
const LARGE: usize = 1 << 20;

impl Index {
    /// Counts a search of a column with this many rows, and returns how to do it.
    pub(super) fn search(&self, rows: usize) -> Search {
        match self.rows.get() {
            Some(Some(_)) => return Search::Index,
            Some(None) => return Search::Scan,
            None => {}
        }
        match self.searches.fetch_add(1, Memory::Relaxed) {
            0..SEARCHES => Search::Scan,
            SEARCHES if rows >= LARGE => Search::ScanAndMake,
            0..PATIENT if rows >= LARGE => Search::Scan,
            _ => Search::Index,
        }
    }

    /// Makes the index, or waits for the thread that makes it. `None` if there is no memory for it.
    pub(super) fn make(&self, view: &ColumnView<'_>, limits: &Limits) -> Option<&[u32]> {
        let made = self.rows.get_or_init(|| {
            let found = Found::of(view);
            let charge = limits.keep((found.count * size_of::<u32>()) as u64)?;
            let _sorting = limits.keep(found.sorting_memory())?;
            let rows = by_value(view, &found);
            Some(Made {
                rows,
                _charge: charge,
            })
        });
        made.as_ref().map(|made| &made.rows[..])
    }

    /// Returns the rows with a value, in their order.
    pub(super) fn find(&self, view: &ColumnView<'_>, key: i64, limits: &Limits) -> Vec<u32> {
        let Some(rows) = self.make(view, limits) else {
            return scan(view, key);
        };
        let compare = |row: &u32| key_of(view, *row as usize).cmp(&Some(key));
        let from = rows.partition_point(|row| compare(row) == Ordering::Less);
        let past = rows.partition_point(|row| compare(row) != Ordering::Greater);
        rows[from..past].to_vec()
    }
}

/// Returns the rows with a value, in their order, by reading the column.
pub(super) fn scan(view: &ColumnView<'_>, key: i64) -> Vec<u32> {
    fn equal<T: Copy + PartialEq>(values: &[T], key: Option<T>, view: &ColumnView<'_>) -> Vec<u32> {
        let Some(key) = key else {
            return Vec::new();
        };
        let rows = values
            .iter()
            .enumerate()
            .filter(|(_, value)| **value == key);
        let valid = |row: &u32| view.validity.is_none_or(|valid| valid.get(*row as usize));
        rows.map(|(row, _)| row as u32).filter(valid).collect()
    }
    match view.values {
        Values::U32(values) => equal(values, u32::try_from(key).ok(), view),
        Values::I32(values) => equal(values, i32::try_from(key).ok(), view),
        Values::I64(values) => equal(values, Some(key), view),
        _ => {
            let rows = 0..view.len();
            rows.filter(|row| key_of(view, *row) == Some(key))
                .map(|row| row as u32)
                .collect()
        }
    }
}

/// The bits of values by which rows are sorted at a time.
const DIGIT: u32 = 11;

/// The values of a column that are not NULL.
struct Found {
    least: i64,
    most: i64,
    count: usize,
}

impl Found {
    fn of(view: &ColumnView<'_>) -> Self {
        let mut found = Self {
            least: i64::MAX,
            most: i64::MIN,
            count: 0,
        };
        for key in (0..view.len()).filter_map(|row| key_of(view, row)) {
            found.least = found.least.min(key);
            found.most = found.most.max(key);
            found.count += 1;
        }
        found
    }

    /// Returns the distance of a value from the least one, which ascends with the value.
    fn distance(&self, key: i64) -> u64 {
        key.wrapping_sub(self.least) as u64
    }

    /// Returns true if the distances have no more than one digit.
    fn is_narrow(&self) -> bool {
        self.count == 0 || self.distance(self.most) >> DIGIT == 0
    }

    /// Returns the bytes of memory that [`by_value`] takes besides its result.
    fn sorting_memory(&self) -> u64 {
        let lists = if self.is_narrow() { 0 } else { 2 };
        (self.count * lists * size_of::<(u64, u32)>()) as u64
    }
}

/// Returns the rows with a value, in the order of values, and then of rows: sorted by one digit of
/// the values after another, the least significant one first.
fn by_value(view: &ColumnView<'_>, found: &Found) -> Vec<u32> {
    let items = || {
        let item = |row| Some((found.distance(key_of(view, row)?), row as u32));
        (0..view.len()).filter_map(item)
    };
    if found.is_narrow() {
        return by_digit(items, found.count, 0, |(_, row)| row);
    }
    let mut sorted: Vec<(u64, u32)> = items().collect();
    let mut low = 0;
    while low < u64::BITS && found.distance(found.most) >> low != 0 {
        sorted = by_digit(|| sorted.iter().copied(), found.count, low, |item| item);
        low += DIGIT;
    }
    sorted.into_iter().map(|(_, row)| row).collect()
}

/// Sorts items by a digit of their distances, which begins at a bit, and returns a part of each.
/// Equal ones keep their order.
fn by_digit<T: Copy + Default, I: Iterator<Item = (u64, u32)>>(
    items: impl Fn() -> I,
    count: usize,
    low: u32,
    part: impl Fn((u64, u32)) -> T,
) -> Vec<T> {
    const MASK: u64 = (1 << DIGIT) - 1;
    let digit = |item: &(u64, u32)| ((item.0 >> low) & MASK) as usize;
    let mut next = [0usize; 1 << DIGIT];
    for item in items() {
        next[digit(&item)] += 1;
    }
    let mut start = 0;
    for first in &mut next {
        start += std::mem::replace(first, start);
    }
    let mut sorted = vec![T::default(); count];
    for item in items() {
        let index = &mut next[digit(&item)];
        sorted[*index] = part(item);
        *index += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Options;

    /// Returns the rows of values by sorting pairs.
    fn expected(values: &[i64]) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..values.len() as u32).collect();
        rows.sort_by_key(|row| values[*row as usize]);
        rows
    }

    fn sorted(values: &[i64]) -> Vec<u32> {
        let view = view(values);
        by_value(&view, &Found::of(&view))
    }

    fn view(values: &[i64]) -> ColumnView<'_> {
        ColumnView {
            values: Values::I64(values),
            validity: None,
        }
    }

    #[test]
    fn rows_are_in_the_order_of_values() {
        let mut state = 1u64;
        let mut random = move |shift: u32| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state as i64) >> shift
        };
        for shift in [0, 8, 30, 41, 52, 53, 60, 63] {
            let values: Vec<i64> = (0..1000).map(|_| random(shift)).collect();
            assert_eq!(sorted(&values), expected(&values), "{shift}");
        }
        for values in [vec![], vec![5], vec![i64::MIN, i64::MAX, 0, -1, i64::MIN]] {
            assert_eq!(sorted(&values), expected(&values), "{values:?}");
        }
    }

    #[test]
    fn the_index_finds_what_the_scan_finds() {
        let values: Vec<i64> = (0..5000).map(|at| at * 7919 % 97 - 40).collect();
        let (index, view, limits) = (Index::default(), view(&values), Limits::default());
        for key in -60..80 {
            assert_eq!(index.find(&view, key, &limits), scan(&view, key), "{key}");
        }
    }

    #[test]
    fn an_index_takes_memory_of_the_limit_and_is_not_made_without() {
        let values: Vec<i64> = (0..5000).map(|at| at % 97).collect();
        let view = view(&values);
        // The index and nothing more, half of the limit.
        let limits = |memory_limit| {
            Limits::new(&Options {
                memory_limit,
                ..Options::default()
            })
        };
        let enough = limits(2 * 4 * 5000);
        let (first, second) = (Index::default(), Index::default());
        assert!(first.make(&view, &enough).is_some());
        assert!(second.make(&view, &enough).is_none());
        assert_eq!(second.search(values.len()), Search::Scan);
        assert_eq!(second.find(&view, 5, &enough), scan(&view, 5));
        let few = limits(2 * 4 * 5000 - 1);
        assert!(Index::default().make(&view, &few).is_none());
        // It is given back.
        drop(first);
        assert!(Index::default().make(&view, &enough).is_some());
    }

    #[test]
    fn searches_of_large_tables_wait_for_the_index_only_if_there_are_many() {
        let (small, large) = (Index::default(), Index::default());
        let ways: Vec<Search> = (0..4).map(|_| small.search(100)).collect();
        use Search::{Index as Use, Scan, ScanAndMake};
        assert_eq!(ways, [Scan, Scan, Use, Use]);
        let ways: Vec<Search> = (0..=PATIENT).map(|_| large.search(LARGE)).collect();
        assert_eq!(ways[..4], [Scan, Scan, ScanAndMake, Scan]);
        assert_eq!(ways[PATIENT as usize - 1..], [Scan, Use]);
        large.make(&view(&[1, 2]), &Limits::default());
        assert_eq!(large.search(LARGE), Use);
    }
}
