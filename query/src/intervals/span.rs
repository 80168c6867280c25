//! Span joins: the intersections of two tables of intervals, with the columns of both.

use std::collections::BTreeMap;

use rusqlite::Result;
use rusqlite::types::Value;

use super::sweep::{Interval, compare, intersect};
use crate::limits::Limits;
use crate::relations::StoredRows;
use crate::syntax::statement::SpanKind;

/// A key in SQLite's order.
struct Key(Value);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        compare(&self.0, &other.0).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        compare(&self.0, &other.0)
    }
}

/// Returns a value as an integer, as SQLite reads it: NULL, which `lead` has in the last row, is 0.
fn to_integer(value: &Value) -> i64 {
    match value {
        Value::Integer(value) => *value,
        Value::Real(value) => *value as i64,
        Value::Text(text) => {
            let text = text.trim_start();
            let signs = text.len() - text.trim_start_matches(['+', '-']).len();
            let digits = text[signs..].find(|c: char| !c.is_ascii_digit());
            let end = digits.map_or(text.len(), |digits| signs + digits);
            text[..end].parse().unwrap_or(0)
        }
        Value::Null | Value::Blob(_) => 0,
    }
}

/// The columns of an input of a span join.
#[derive(Debug, Clone)]
pub(crate) struct SpanColumns {
    pub(crate) ts: usize,
    pub(crate) dur: usize,
    /// The column after `PARTITIONED`.
    pub(crate) key: Option<usize>,
    /// The columns of the result.
    pub(crate) others: Vec<usize>,
}

/// An input of a span join.
#[derive(Debug)]
pub(crate) struct SpanSide<'a> {
    pub(crate) rows: &'a StoredRows,
    pub(crate) columns: &'a SpanColumns,
}

/// The intervals of each partition; those without one are in all.
type Partitions = BTreeMap<Option<Key>, Vec<Interval>>;

impl SpanSide<'_> {
    fn partitions(&self) -> Partitions {
        let mut partitions = Partitions::new();
        for row in 0..self.rows.len() {
            let values = self.rows.row(row);
            let ts = to_integer(&values[self.columns.ts]);
            let dur = to_integer(&values[self.columns.dur]);
            // Intervals that have not ended have no part in a join.
            if dur < 0 {
                continue;
            }
            let key = match self.columns.key.map(|key| values[key].clone()) {
                Some(Value::Null) => continue,
                Some(key) => Some(Key(key)),
                None => None,
            };
            let end = ts.saturating_add(dur);
            let row = row as u32;
            let interval = Interval { ts, end, row };
            partitions.entry(key).or_default().push(interval);
        }
        for intervals in partitions.values_mut() {
            intervals.sort_by_key(|interval| interval.ts);
        }
        partitions
    }

    fn push(&self, row: Option<u32>, out: &mut StoredRows) -> Result<()> {
        let values = row.map(|row| self.rows.row(row as usize));
        let others = self.columns.others.iter();
        out.extend(others.map(|column| values.map_or(Value::Null, |v| v[*column].clone())))
    }
}

/// A part of the result: its start and end, and a row of each input.
type Piece = (i64, i64, Option<u32>, Option<u32>);

/// Adds the parts of an interval that no piece covers.
fn add_gaps(interval: &Interval, covered: &[(i64, i64)], mut add: impl FnMut(i64, i64)) {
    let mut at = interval.ts;
    for (ts, end) in covered {
        if *ts > at {
            add(at, *ts);
        }
        at = at.max(*end);
    }
    if at < interval.end || covered.is_empty() {
        add(at, interval.end);
    }
}

/// Returns the pieces of one partition, in the order of time.
fn pieces(
    kind: SpanKind,
    limits: &Limits,
    left: &[Interval],
    right: &[Interval],
) -> Result<Vec<Piece>> {
    let mut charge = limits.charge();
    let mut out: Vec<Piece> = Vec::new();
    let (mut of_left, mut of_right) = (vec![Vec::new(); left.len()], vec![Vec::new(); right.len()]);
    intersect(left, right, |l, r, ts, end| {
        out.push((ts, end, Some(left[l].row), Some(right[r].row)));
        of_left[l].push((ts, end));
        of_right[r].push((ts, end));
        charge.grow(2 * size_of::<Piece>() as u64)
    })?;
    if kind != SpanKind::Inner {
        for (interval, covered) in left.iter().zip(&of_left) {
            add_gaps(interval, covered, |ts, end| {
                out.push((ts, end, Some(interval.row), None))
            });
        }
    }
    if kind == SpanKind::Outer {
        for (interval, covered) in right.iter().zip(&of_right) {
            add_gaps(interval, covered, |ts, end| {
                out.push((ts, end, None, Some(interval.row)))
            });
        }
    }
    out.sort_by_key(|(ts, end, ..)| (*ts, *end));
    Ok(out)
}

/// Returns rows `ts, dur, [key], columns of the left side…, columns of the right side…`.
pub(crate) fn join(
    kind: SpanKind,
    limits: &Limits,
    left: &SpanSide<'_>,
    right: &SpanSide<'_>,
) -> Result<StoredRows> {
    let has_key = left.columns.key.or(right.columns.key).is_some();
    let width = 2 + usize::from(has_key) + left.columns.others.len() + right.columns.others.len();
    let mut out = StoredRows::new(width, limits);
    let (of_left, of_right) = (left.partitions(), right.partitions());
    let mut keys: Vec<&Option<Key>> = of_left.keys().chain(of_right.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        // The intervals of an input without partitions belong to each partition of the other one.
        if has_key && key.is_none() {
            continue;
        }
        fn of<'a>(all: &'a Partitions, key: &Option<Key>, is_split: bool) -> &'a [Interval] {
            let found = if is_split {
                all.get(key)
            } else {
                all.get(&None)
            };
            found.map_or(&[], Vec::as_slice)
        }
        let left_intervals = of(&of_left, key, left.columns.key.is_some());
        let right_intervals = of(&of_right, key, right.columns.key.is_some());
        for (ts, end, l, r) in pieces(kind, limits, left_intervals, right_intervals)? {
            out.extend([Value::Integer(ts), Value::Integer(end - ts)])?;
            out.extend(key.as_ref().map(|key| key.0.clone()))?;
            left.push(l, &mut out)?;
            right.push(r, &mut out)?;
        }
    }
    Ok(out)
}
