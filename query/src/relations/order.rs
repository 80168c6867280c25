//! The order of rows by columns, as SQLite sorts them: NULL first, then numbers, and texts by their
//! bytes.

use ferretto_tables::{ColumnView, StringPool, Value};

/// Returns the number that represents the value of a row; `None` for NULL.
pub(super) fn key_of(view: &ColumnView<'_>, row: usize) -> Option<i64> {
    match view.get(row) {
        Value::Int(value) => Some(value),
        Value::Text(text) => Some(text.raw().into()),
        Value::Real(_) | Value::Null => None,
    }
}

/// Sorts rows by columns, each with true if its values descend. Equal rows keep their order.
pub(super) fn sorted(
    rows: Vec<u32>,
    columns: &[(ColumnView<'_>, bool)],
    strings: &StringPool,
) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    // The most important column is the last to sort by.
    for (view, descends) in columns.iter().rev() {
        let mut ranks = ranks(&rows, view, strings);
        if *descends {
            let last = ranks.iter().max().copied().unwrap_or(0);
            ranks.iter_mut().for_each(|rank| *rank = last - *rank);
        }
        order = by_rank(&order, &ranks);
    }
    order.into_iter().map(|at| rows[at as usize]).collect()
}

/// Returns the ranks of the rows' values among all of them. That of NULL is 0.
fn ranks(rows: &[u32], view: &ColumnView<'_>, strings: &StringPool) -> Vec<u32> {
    let mut keys: Vec<(i64, u32)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(key) = key_of(view, *row as usize) {
            keys.push((key, at as u32));
        }
    }
    keys.sort_unstable();
    let runs: Vec<&[(i64, u32)]> = keys.chunk_by(|one, other| one.0 == other.0).collect();
    let mut order: Vec<usize> = (0..runs.len()).collect();
    // Texts have numbers in the order in which they were read.
    let text_of = |run: usize| match view.get(rows[runs[run][0].1 as usize] as usize) {
        Value::Text(text) => strings.get(text),
        _ => None,
    };
    if !order.is_empty() && text_of(0).is_some() {
        order.sort_by_key(|run| text_of(*run));
    }
    let mut ranks = vec![0; rows.len()];
    for (rank, run) in order.into_iter().enumerate() {
        for (_, at) in runs[run] {
            ranks[*at as usize] = rank as u32 + 1;
        }
    }
    ranks
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
