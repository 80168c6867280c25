//! Mipmaps: the most important slice, or the extremes of a counter, in each step of a range of
//! time.

use std::ops::Range;
use std::sync::Arc;

use rusqlite::Result;
use rusqlite::types::Value;

use super::pyramid::Pyramid;
use crate::limits::{Charge, Limits};
use crate::objects::failure;
use crate::relations::{Stored, StoredRows};

/// The arguments of mipmaps.
const ARGUMENTS: [&str; 3] = ["in_window_start", "in_window_end", "in_window_step"];

/// A range of time in steps.
#[derive(Debug, Clone, Copy)]
struct Steps {
    start: i128,
    /// The end of the last step, which is not before the end of the range.
    end: i128,
    step: i128,
}

impl Steps {
    fn new(arguments: &[Value]) -> Result<Self> {
        let number = |index: usize| match arguments.get(index) {
            Some(Value::Integer(number)) => Ok(i128::from(*number)),
            Some(Value::Real(number)) => Ok(i128::from(*number as i64)),
            _ => Err(failure(format!(
                "the argument {} of a mipmap must be an integer",
                ARGUMENTS[index]
            ))),
        };
        let (start, end, step) = (number(0)?, number(1)?, number(2)?);
        if step <= 0 {
            return Err(failure("the step of a mipmap must be positive"));
        }
        let steps = (end - start).max(0).div_euclid(step) + i128::from((end - start) % step > 0);
        let steps = if end > start { steps } else { 0 };
        Ok(Self {
            start,
            end: start + steps * step,
            step,
        })
    }

    /// Returns the number of the step that has a time.
    fn number(self, ts: i64) -> i128 {
        (i128::from(ts) - self.start).div_euclid(self.step)
    }

    /// Returns the rows of each step that has some, of rows with these times. Until a row begins,
    /// the one before is shown, so it belongs to the first step unless a row begins with that.
    fn ranges(self, times: &[i64]) -> impl Iterator<Item = Range<usize>> {
        let before = |time: i128| times.partition_point(|ts| i128::from(*ts) < time);
        let (mut next, past) = (before(self.start), before(self.end));
        let is_shown = next > 0
            && self.start < self.end
            && times
                .get(next)
                .is_none_or(|ts| i128::from(*ts) != self.start);
        let mut shown = is_shown.then(|| next - 1);
        std::iter::from_fn(move || {
            let from = shown.unwrap_or(next);
            // Steps without rows are left out.
            let step = match (shown.take(), times.get(next)) {
                (Some(_), _) => 0,
                (None, Some(ts)) if next < past => self.number(*ts),
                _ => return None,
            };
            let end = self.start + (step + 1) * self.step;
            let rest = times.get(next..past).unwrap_or_default();
            next += rest.partition_point(|ts| i128::from(*ts) < end);
            Some(from..next)
        })
    }
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(value) => *value,
        Value::Real(value) => *value as i64,
        _ => 0,
    }
}

fn real(value: &Value) -> f64 {
    match value {
        Value::Integer(value) => *value as f64,
        Value::Real(value) => *value,
        _ => 0.0,
    }
}

/// The slices of one depth, in the order of time.
#[derive(Debug)]
struct Depth {
    depth: i64,
    times: Vec<i64>,
    ids: Vec<i64>,
    /// The durations, with the index of the slice.
    longest: Pyramid<(i64, u32)>,
}

/// A mipmap of slices: for each depth and step, the longest slice that begins in the step.
#[derive(Debug)]
pub(crate) struct SliceMipmap {
    depths: Vec<Depth>,
    limits: Limits,
    _charge: Charge,
}

/// Returns the longer slice, or the first of equal ones.
fn longer(a: (i64, u32), b: (i64, u32)) -> (i64, u32) {
    if a.0 < b.0 { b } else { a }
}

impl SliceMipmap {
    /// Returns the table of a mipmap of rows `id, ts, dur, depth`.
    pub(crate) fn relation(rows: &StoredRows, limits: &Limits) -> Result<Arc<Stored>> {
        if rows.width < 4 && rows.len() > 0 {
            return Err(failure(
                "the input of a mipmap has the columns id, ts, dur and depth",
            ));
        }
        let mut charge = limits.charge();
        charge.grow(48 * rows.len() as u64)?;
        let mut all: Vec<_> = (0..rows.len())
            .map(|row| {
                let values = rows.row(row);
                let [id, ts, dur, depth] = [0, 1, 2, 3].map(|column| integer(&values[column]));
                (depth, ts, row, id, dur)
            })
            .collect();
        all.sort_unstable();
        let depths = all.chunk_by(|a, b| a.0 == b.0).map(|slices| {
            let durations = slices
                .iter()
                .enumerate()
                .map(|(index, (.., dur))| (*dur, index as u32));
            Depth {
                depth: slices[0].0,
                times: slices.iter().map(|(_, ts, ..)| *ts).collect(),
                ids: slices.iter().map(|(_, _, _, id, _)| *id).collect(),
                longest: Pyramid::new(durations.collect(), longer),
            }
        });
        let mipmap = Self {
            depths: depths.collect(),
            limits: limits.clone(),
            _charge: charge,
        };
        let columns = ["ts", "id", "count", "dur", "depth"];
        Ok(Stored::new(
            columns.map(str::to_owned).to_vec(),
            ARGUMENTS.map(str::to_owned).to_vec(),
            move |arguments| mipmap.rows(Steps::new(arguments)?).map(Arc::new),
        ))
    }

    fn rows(&self, steps: Steps) -> Result<StoredRows> {
        let mut rows = StoredRows::new(5, &self.limits);
        for depth in &self.depths {
            for range in steps.ranges(&depth.times) {
                let count = range.len() as i64;
                let Some((dur, index)) = depth.longest.best(range.start, range.end, longer) else {
                    continue;
                };
                let (ts, id) = (depth.times[index as usize], depth.ids[index as usize]);
                rows.extend([ts, id, count, dur, depth.depth].map(Value::Integer))?;
            }
        }
        Ok(rows)
    }
}

/// A mipmap of a counter: for each step, the extremes and the last value.
#[derive(Debug)]
pub(crate) struct CounterMipmap {
    times: Vec<i64>,
    /// The smallest and the largest value.
    extremes: Pyramid<(f64, f64)>,
    limits: Limits,
    _charge: Charge,
}

fn wider(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

impl CounterMipmap {
    /// Returns the table of a mipmap of rows `ts, value`.
    pub(crate) fn relation(rows: &StoredRows, limits: &Limits) -> Result<Arc<Stored>> {
        let mut charge = limits.charge();
        charge.grow(40 * rows.len() as u64)?;
        let mut all: Vec<_> = (0..rows.len())
            .map(|row| (integer(&rows.row(row)[0]), real(&rows.row(row)[1])))
            .collect();
        all.sort_by_key(|(ts, _)| *ts);
        let values = all.iter().map(|(_, value)| (*value, *value));
        let mipmap = Self {
            times: all.iter().map(|(ts, _)| *ts).collect(),
            extremes: Pyramid::new(values.collect(), wider),
            limits: limits.clone(),
            _charge: charge,
        };
        let columns = ["min_value", "max_value", "last_ts", "last_value"];
        Ok(Stored::new(
            columns.map(str::to_owned).to_vec(),
            ARGUMENTS.map(str::to_owned).to_vec(),
            move |arguments| mipmap.rows(Steps::new(arguments)?).map(Arc::new),
        ))
    }

    fn rows(&self, steps: Steps) -> Result<StoredRows> {
        let mut rows = StoredRows::new(4, &self.limits);
        for range in steps.ranges(&self.times) {
            let Some((min, max)) = self.extremes.best(range.start, range.end, wider) else {
                continue;
            };
            let last = range.end - 1;
            rows.push(min)?;
            rows.push(max)?;
            rows.push(self.times[last])?;
            rows.push(self.extremes.get(last).0)?;
        }
        Ok(rows)
    }
}
