//! Indexes of columns: the rows with each value.

use std::cmp::Ordering;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering as Memory};

use ferretto_tables::{ColumnView, Values};

use super::order::key_of;

/// The index of a column, which is made when the column has been searched some times.
#[derive(Debug, Default)]
pub(super) struct Index {
    searches: AtomicU32,
    /// The rows with a value, in the order of values.
    rows: OnceLock<Vec<u32>>,
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
        if self.rows.get().is_some() {
            return Search::Index;
        }
        match self.searches.fetch_add(1, Memory::Relaxed) {
            0..SEARCHES => Search::Scan,
            SEARCHES if rows >= LARGE => Search::ScanAndMake,
            0..PATIENT if rows >= LARGE => Search::Scan,
            _ => Search::Index,
        }
    }

    /// Makes the index, or waits for the thread that makes it.
    pub(super) fn make(&self, view: &ColumnView<'_>) -> &[u32] {
        self.rows.get_or_init(|| by_value(view))
    }

    /// Returns the rows with a value, in their order.
    pub(super) fn find(&self, view: &ColumnView<'_>, key: i64) -> Vec<u32> {
        let rows = self.make(view);
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

/// Returns the rows with a value, in the order of values, and then of rows: sorted by one digit of
/// the values after another, the least significant one first.
fn by_value(view: &ColumnView<'_>) -> Vec<u32> {
    let keys = || (0..view.len()).filter_map(|row| Some((key_of(view, row)?, row as u32)));
    let (mut least, mut most, mut count) = (i64::MAX, i64::MIN, 0);
    for (key, _) in keys() {
        (least, most, count) = (least.min(key), most.max(key), count + 1);
    }
    if count == 0 {
        return Vec::new();
    }
    // The distance from the least value, which ascends with the value.
    let distance = |key: i64| key.wrapping_sub(least) as u64;
    if distance(most) >> DIGIT == 0 {
        let keys = || keys().map(|(key, row)| (distance(key), row));
        return by_digit(keys, count, |(distance, _)| *distance)
            .into_iter()
            .map(|(_, row)| row)
            .collect();
    }
    let mut sorted: Vec<(u64, u32)> = keys().map(|(key, row)| (distance(key), row)).collect();
    let mut low = 0;
    while low < u64::BITS && distance(most) >> low != 0 {
        let digit = |(distance, _): &(u64, u32)| distance >> low;
        sorted = by_digit(|| sorted.iter().copied(), count, digit);
        low += DIGIT;
    }
    sorted.into_iter().map(|(_, row)| row).collect()
}

/// Sorts items by the lowest digit of a number. Equal ones keep their order.
fn by_digit<T: Copy + Default, I: Iterator<Item = T>>(
    items: impl Fn() -> I,
    count: usize,
    number: impl Fn(&T) -> u64,
) -> Vec<T> {
    const MASK: u64 = (1 << DIGIT) - 1;
    let mut next = [0usize; 1 << DIGIT];
    for item in items() {
        next[(number(&item) & MASK) as usize] += 1;
    }
    let mut start = 0;
    for first in &mut next {
        start += std::mem::replace(first, start);
    }
    let mut sorted = vec![T::default(); count];
    for item in items() {
        let index = &mut next[(number(&item) & MASK) as usize];
        sorted[*index] = item;
        *index += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rows of values by sorting pairs.
    fn expected(values: &[i64]) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..values.len() as u32).collect();
        rows.sort_by_key(|row| values[*row as usize]);
        rows
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
            assert_eq!(by_value(&view(&values)), expected(&values), "{shift}");
        }
        for values in [vec![], vec![5], vec![i64::MIN, i64::MAX, 0, -1, i64::MIN]] {
            assert_eq!(by_value(&view(&values)), expected(&values), "{values:?}");
        }
    }

    #[test]
    fn the_index_finds_what_the_scan_finds() {
        let values: Vec<i64> = (0..5000).map(|at| at * 7919 % 97 - 40).collect();
        let (index, view) = (Index::default(), view(&values));
        for key in -60..80 {
            assert_eq!(index.find(&view, key), scan(&view, key), "{key}");
        }
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
        large.make(&view(&[1, 2]));
        assert_eq!(large.search(LARGE), Use);
    }
}
