//! Sweeps over sorted intervals.

use std::cmp::Ordering;

use rusqlite::Result;
use rusqlite::types::Value;

/// An interval of one input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub(super) ts: i64,
    /// The end, which is at least `ts`.
    pub(super) end: i64,
    /// The number of its row in the input.
    pub(super) row: u32,
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

/// Calls `each` for the intersections of two sorted lists of one key: with the indexes of the two
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
        let meets = |this: &Interval, other: &Interval| {
            other.end > this.ts || (other.end == this.ts && other.ts == this.ts)
        };
        if is_left {
            let this = &left[l];
            open_right.retain(|other: &usize| meets(this, &right[*other]));
            for other in &open_right {
                each(l, *other, this.ts, this.end.min(right[*other].end))?;
            }
            open_left.push(l);
            l += 1;
        } else {
            let this = &right[r];
            open_left.retain(|other: &usize| meets(this, &left[*other]));
            for other in &open_left {
                each(*other, r, this.ts, this.end.min(left[*other].end))?;
            }
            open_right.push(r);
            r += 1;
        }
    }
    Ok(())
}
