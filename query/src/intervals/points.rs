//! Intervals between points of time: of counters, and from starts to ends.

use rusqlite::Result;
use rusqlite::types::Value;

use crate::limits::Limits;
use crate::objects::{Object, failure};
use crate::relations::StoredRows;

/// A row of a counter.
#[derive(Debug, Clone, Copy)]
struct Count {
    id: i64,
    ts: i64,
    track: i64,
    value: f64,
}

impl Count {
    /// Reads a row `id, ts, track_id, value`. A value that is no number is 0.
    fn read(values: &[Value]) -> Self {
        let integer = |column: usize| match &values[column] {
            Value::Integer(value) => *value,
            Value::Real(value) => *value as i64,
            _ => 0,
        };
        let value = match &values[3] {
            Value::Integer(value) => *value as f64,
            Value::Real(value) => *value,
            _ => 0.0,
        };
        Self {
            id: integer(0),
            ts: integer(1),
            track: integer(2),
            value,
        }
    }
}

/// Returns the rows of a track that the result has: of a run of equal values the first two, and the
/// last one if another value follows.
fn kept(track: &[Count]) -> impl Iterator<Item = Count> {
    let runs = track.chunk_by(|a, b| a.value == b.value);
    runs.flat_map(|run| {
        // The end of the track is reached when nothing is left after the run.
        let is_last = std::ptr::eq(run.as_ptr_range().end, track.as_ptr_range().end);
        let first = run.len().min(2);
        let last = (run.len() > 2 && !is_last).then(|| run[run.len() - 1]);
        run[..first].iter().copied().chain(last)
    })
}

/// Returns rows `id, ts, dur, track_id, value, next_value, delta_value` of rows `id, ts, track_id,
/// value` in the order of time. The last value of a track lasts until `end`.
pub(super) fn counter_intervals(counts: &Object, end: i64, limits: &Limits) -> Result<Object> {
    let names = [
        "id",
        "ts",
        "dur",
        "track_id",
        "value",
        "next_value",
        "delta_value",
    ];
    let mut charge = limits.charge();
    charge.grow((size_of::<Count>() * counts.rows.len()) as u64)?;
    let rows = (0..counts.rows.len()).map(|row| Count::read(counts.rows.row(row)));
    let mut all: Vec<Count> = rows.collect();
    all.sort_by_key(|count| count.track);
    let mut out = StoredRows::new(names.len(), limits);
    for track in all.chunk_by(|a, b| a.track == b.track) {
        let mut rest = kept(track).peekable();
        let mut before: Option<Count> = None;
        while let Some(count) = rest.next() {
            let next = rest.peek().copied();
            let past = next.map_or(end, |next| next.ts);
            out.push(count.id)?;
            out.push(count.ts)?;
            out.push(past.saturating_sub(count.ts))?;
            out.push(count.track)?;
            out.push(count.value)?;
            out.push(next.map(|next| next.value))?;
            out.push(before.map(|before| count.value - before.value))?;
            before = Some(count);
        }
    }
    let names = names.map(str::to_owned).to_vec();
    Ok(Object { names, rows: out })
}

fn times(object: &Object) -> Result<Vec<i64>> {
    let mut times = Vec::with_capacity(object.rows.len());
    for row in 0..object.rows.len() {
        match object.rows.row(row)[0] {
            Value::Integer(ts) => times.push(ts),
            Value::Null => {}
            _ => return Err(failure("a start or end of an interval must be an integer")),
        }
    }
    times.sort_unstable();
    Ok(times)
}

/// Returns rows `ts, dur`: from each start to the first end after it.
pub(super) fn create(starts: &Object, ends: &Object, limits: &Limits) -> Result<Object> {
    let (starts, ends) = (times(starts)?, times(ends)?);
    let mut out = StoredRows::new(2, limits);
    let mut rest = ends.as_slice();
    for start in starts {
        rest = &rest[rest.partition_point(|end| *end <= start)..];
        let Some(end) = rest.first() else {
            break;
        };
        out.push(start)?;
        out.push(end.saturating_sub(start))?;
    }
    let names = ["ts", "dur"].map(str::to_owned).to_vec();
    Ok(Object { names, rows: out })
}
