//! As-of joins: for each row the last one of another table that is not later.

use std::cmp::Ordering;

use rusqlite::Result;
use rusqlite::types::Value;

use super::partition::integer;
use super::sweep::compare;
use crate::limits::Limits;
use crate::relations::StoredRows;

/// A row `ts, keys…` with a time.
struct Point<'a> {
    key: &'a [Value],
    ts: i64,
    row: usize,
}

impl Point<'_> {
    fn compare_key(&self, other: &Point<'_>) -> Ordering {
        let mut pairs = self.key.iter().zip(other.key).map(|(a, b)| compare(a, b));
        let order = pairs.find(|order| order.is_ne());
        order.unwrap_or(Ordering::Equal)
    }
}

/// Returns the rows in the order of key, time and row.
fn points(rows: &StoredRows) -> Result<Vec<Point<'_>>> {
    let mut points = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let (ts, key) = (&rows.row(row)[0], &rows.row(row)[1..]);
        if *ts != Value::Null {
            let ts = integer(ts, "ts")?;
            points.push(Point { key, ts, row });
        }
    }
    points.sort_by(|a, b| a.compare_key(b).then(a.ts.cmp(&b.ts)));
    Ok(points)
}

/// Returns rows `left row, right row, ts of the right row` for rows `ts, keys…`: for each left row,
/// the last right row of its key that is not later. Rows are numbered from 1.
pub(super) fn as_of(limits: &Limits, left: &StoredRows, right: &StoredRows) -> Result<StoredRows> {
    let (left, right) = (points(left)?, points(right)?);
    let mut found = Vec::with_capacity(left.len());
    let mut at = 0;
    for point in &left {
        let is_before = |other: &Point<'_>| {
            let order = other.compare_key(point).then(other.ts.cmp(&point.ts));
            order.is_le()
        };
        while right.get(at).is_some_and(is_before) {
            at += 1;
        }
        let last = at.checked_sub(1).map(|last| &right[last]);
        let is_of_key = |other: &&Point<'_>| {
            other.compare_key(point).is_eq() && !other.key.contains(&Value::Null)
        };
        found.push((point.row, last.filter(is_of_key)));
    }
    found.sort_by_key(|(row, _)| *row);
    let mut out = StoredRows::new(3, limits);
    let number = |row: usize| row as i64 + 1;
    for (row, other) in found {
        out.push(number(row))?;
        out.push(other.map(|other| number(other.row)))?;
        out.push(other.map(|other| other.ts))?;
    }
    Ok(out)
}
