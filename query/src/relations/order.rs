//! The order of rows by columns, as SQLite sorts them: NULL first, then numbers, and texts by their
//! bytes.

use ferretto_tables::{ColumnView, StringPool, Value};

use super::gather::gather;

/// Returns the number that represents the value of a row; `None` for NULL.
pub(super) fn key_of(view: &ColumnView<'_>, row: usize) -> Option<i64> {
    key_of_value(view.get(row))
}

fn key_of_value(value: Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(value),
        Value::Text(text) => Some(text.raw().into()),
        Value::Real(_) | Value::Null => None,
    }
}

/// The bytes that [`sorted`] takes at most for each row: the numbers of rows before and after a
/// column, the ranks of its values, and the values alone, with their rows, and their runs.
pub(super) const SORTED_BYTES: u64 = 5 * 4 + 4 + 16 + 16 + 16 + 8;

/// Rows in an order.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) rows: Vec<u32>,
    /// For each of them, a row with the same value of the most important column. It is the same one
    /// for all with this value: reading it again costs less than reading another row.
    pub(super) alike: Vec<u32>,
}

/// Sorts rows by columns, each with true if its values descend. Equal rows keep their order.
pub(super) fn sorted(
    rows: Vec<u32>,
    columns: &[(ColumnView<'_>, bool)],
    strings: &StringPool,
) -> Sorted {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    // The most important column is the last to sort by.
    let mut first_ranks = Vec::new();
    for (view, descends) in columns.iter().rev() {
        let mut ranks = ranks(&rows, view, strings);
        if *descends {
            let last = ranks.iter().max().copied().unwrap_or(0);
            ranks.iter_mut().for_each(|rank| *rank = last - *rank);
        }
        order = by_rank(&order, &ranks);
        first_ranks = ranks;
    }
    let mut alike: Vec<u32> = Vec::with_capacity(rows.len());
    let mut last = None;
    for at in &order {
        let rank = first_ranks.get(*at as usize).copied();
        match alike.last() {
            Some(row) if rank.is_some() && rank == last => alike.push(*row),
            _ => alike.push(rows[*at as usize]),
        }
        last = rank;
    }
    let rows = order.into_iter().map(|at| rows[at as usize]).collect();
    Sorted { rows, alike }
}

/// Returns the ranks of the rows' values among all of them. That of NULL is 0.
fn ranks(rows: &[u32], view: &ColumnView<'_>, strings: &StringPool) -> Vec<u32> {
    let keys = gather(view, rows, key_of_value);
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for key in keys.iter().flatten() {
        (least, most) = (least.min(*key), most.max(*key));
    }
    if least > most {
        return vec![0; rows.len()];
    }
    // Few values, such as numbers of texts and of threads, need no sorting of rows.
    let values = most.wrapping_sub(least) as u64;
    if values < rows.len() as u64 {
        let index = |key: i64| key.wrapping_sub(least) as usize;
        let mut ranks_of = vec![0; values as usize + 1];
        let mut first_rows = Vec::new();
        for (key, row) in keys.iter().zip(rows) {
            if let Some(key) = *key
                && std::mem::replace(&mut ranks_of[index(key)], 1) == 0
            {
                first_rows.push((key, *row));
            }
        }
        first_rows.sort_unstable();
        sort_texts(&mut first_rows, |(_, row)| *row, view, strings);
        for (rank, (key, _)) in (1..).zip(first_rows) {
            ranks_of[index(key)] = rank;
        }
        let rank = |key: &Option<i64>| key.map_or(0, |key| ranks_of[index(key)]);
        return keys.iter().map(rank).collect();
    }
    let numbered = keys.into_iter().zip(0..);
    let mut keys: Vec<(i64, u32)> = numbered.filter_map(|(key, at)| Some((key?, at))).collect();
    keys.sort_unstable();
    let mut runs: Vec<&[(i64, u32)]> = keys.chunk_by(|one, other| one.0 == other.0).collect();
    sort_texts(&mut runs, |run| rows[run[0].1 as usize], view, strings);
    let mut ranks = vec![0; rows.len()];
    for (rank, run) in (1..).zip(runs) {
        for (_, at) in run {
            ranks[*at as usize] = rank;
        }
    }
    ranks
}

/// Sorts the values of a column of texts, which have numbers in the order in which they were read.
fn sort_texts<T>(
    values: &mut [T],
    row: impl Fn(&T) -> u32,
    view: &ColumnView<'_>,
    strings: &StringPool,
) {
    let text = |value: &T| match view.get(row(value) as usize) {
        Value::Text(text) => strings.get(text),
        _ => None,
    };
    // Numbers are in their order already.
    if values.first().and_then(text).is_some() {
        values.sort_by(|one, other| text(one).cmp(&text(other)));
    }
}

/// Sorts numbers of rows by their ranks. Equal ones keep their order.
fn by_rank(order: &[u32], ranks: &[u32]) -> Vec<u32> {
    let last = ranks.iter().max().map_or(0, |rank| *rank as usize);
    let mut starts = vec![0u32; last + 2];
    for rank in ranks {
        starts[*rank as usize + 1] += 1;
    }
    for rank in 0..=last {
        starts[rank + 1] += starts[rank];
    }
    let mut sorted = vec![0; order.len()];
    for at in order {
        let next = &mut starts[ranks[*at as usize] as usize];
        sorted[*next as usize] = *at;
        *next += 1;
    }
    sorted
}
