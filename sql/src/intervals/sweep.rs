//! Sweeps over sorted intervals.

use std::cmp::Ordering;

use rusqlite::Result;
use rusqlite::types::Value;

/// An interval of one input.
#[derive(Debug, Clone)]
pub(super) struct Interval {
    pub(super) key: Vec<Value>,
    pub(super) ts: i64,
    /// The end, which is at least `ts`.
    pub(super) end: i64,
    /// The number of its row in the input.
    pub(super) row: usize,
}

/// Compares values in SQLite's order: NULL, numbers, texts, blobs.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Integer(_) | Value::Real(_) => 1,
        Value::Text(_) => 2,
        Value::Blob(_) => 3,
    };
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Real(a), Value::Real(b)) => a.total_cmp(b),
        (Value::Integer(a), Value::Real(b)) => (*a as f64).total_cmp(b),
        (Value::Real(a), Value::Integer(b)) => a.total_cmp(&(*b as f64)),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

pub(super) fn compare_keys(a: &[Value], b: &[Value]) -> Ordering {
    let mut pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Sorts intervals by key, time and row.
pub(super) fn sort(intervals: &mut [Interval]) {
    intervals.sort_by(|a, b| {
        compare_keys(&a.key, &b.key)
            .then(a.ts.cmp(&b.ts))
            .then(a.row.cmp(&b.row))
    });
}

/// Returns the runs of intervals with the same key.
pub(super) fn runs(intervals: &[Interval]) -> impl Iterator<Item = &[Interval]> {
    intervals.chunk_by(|a, b| compare_keys(&a.key, &b.key).is_eq())
}

/// Calls `each` for the intersections of two sorted lists with one key: with the indexes of the two
/// intervals, start and end. An interval of length 0 intersects another one if it lies in it, not
/// at its end, or at the same time. The intervals of one list may overlap.
pub(super) fn intersect(
    left: &[Interval],
    right: &[Interval],
    mut each: impl FnMut(usize, usize, i64, i64) -> Result<()>,
) -> Result<()> {
    // The intervals of each list that may reach further ones of the other list.
    let (mut open_left, mut open_right) = (Vec::new(), Vec::new());
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        let is_left = match (left.get(l), right.get(r)) {
            (Some(a), Some(b)) => a.ts <= b.ts,
            (a, _) => a.is_some(),
        };
        let meet = |this: &Interval, others: &mut Vec<usize>, all: &[Interval]| {
            let reaches = |other: &Interval| {
                other.end > this.ts || (other.end == this.ts && other.ts == this.ts)
            };
            others.retain(|index| reaches(&all[*index]));
            others.clone()
        };
        if is_left {
            for other in meet(&left[l], &mut open_right, right) {
                each(l, other, left[l].ts, left[l].end.min(right[other].end))?;
            }
            open_left.push(l);
            l += 1;
        } else {
            for other in meet(&right[r], &mut open_left, left) {
                each(other, r, right[r].ts, right[r].end.min(left[other].end))?;
            }
            open_right.push(r);
            r += 1;
        }
    }
    Ok(())
}
