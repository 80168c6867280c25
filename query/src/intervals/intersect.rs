//! The intersections of any number of tables of intervals.

use std::sync::Arc;

use rusqlite::Result;
use rusqlite::types::Value;

use super::partition::{Keys, partitions};
use super::sweep::{Interval, intersect};
use crate::limits::Limits;
use crate::objects::{Object, failure};
use crate::relations::StoredRows;

/// The largest number of inputs.
pub(super) const MAX_INPUTS: usize = 15;
/// The largest number of key columns: a table pointer has 32 columns.
pub(super) const MAX_KEYS: usize = 32 - 2 - MAX_INPUTS;

/// The intersections of the intervals of one key.
struct Found {
    /// The intersections, whose rows are indexes of members.
    intervals: Vec<Interval>,
    /// The row of each input, for one intersection after another.
    members: Vec<u32>,
}

/// Intersects the intervals that the inputs have for one key. The smallest input is the first, so
/// that there are few intersections from the start.
fn of_key(limits: &Limits, inputs: &[&[Interval]]) -> Result<Found> {
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    order.sort_by_key(|input| inputs[*input].len());
    let count = inputs.len();
    let mut charge = limits.charge();
    let mut found = Found {
        intervals: Vec::new(),
        members: Vec::new(),
    };
    for (round, input) in order.into_iter().enumerate() {
        let others = inputs[input];
        let mut next = Found {
            intervals: Vec::new(),
            members: Vec::new(),
        };
        let mut add = |members: Option<usize>, ts: i64, end: i64, row: u32| {
            charge.grow((size_of::<Interval>() + 4 * count) as u64)?;
            let index = next.intervals.len();
            match members {
                Some(at) => next
                    .members
                    .extend_from_slice(&found.members[at * count..(at + 1) * count]),
                None => next.members.resize((index + 1) * count, 0),
            }
            next.members[index * count + input] = row;
            next.intervals.push(Interval {
                ts,
                end,
                row: index as u32,
            });
            Ok(())
        };
        if round == 0 {
            for other in others {
                add(None, other.ts, other.end, other.row)?;
            }
        } else {
            intersect(&found.intervals, others, |left, right, ts, end| {
                add(Some(left), ts, end, others[right].row)
            })?;
        }
        found = next;
    }
    Ok(found)
}

/// Returns rows `ts, dur, id_0, …, id_14, keys…` of objects with rows `id, ts, dur, keys…`, in the
/// order of time.
pub(super) fn intersections(
    limits: &Limits,
    inputs: &[Arc<Object>],
    keys: &[String],
) -> Result<Object> {
    let count = inputs.len();
    if !(1..=MAX_INPUTS).contains(&count) {
        return Err(failure(format!(
            "an intersection has 1 to {MAX_INPUTS} inputs, not {count}"
        )));
    }
    if keys.len() > MAX_KEYS {
        return Err(failure(format!(
            "an intersection has up to {MAX_KEYS} key columns, not {}",
            keys.len()
        )));
    }
    let id = |input: usize| format!("id_{input}");
    let mut names = vec!["ts".to_owned(), "dur".to_owned()];
    names.extend((0..count).map(id));
    names.extend(keys.iter().cloned());
    let mut out = StoredRows::new(names.len(), limits);
    // The columns of inputs that do not exist have no values.
    names.extend((count..MAX_INPUTS).map(id));
    let (mut all_keys, mut charge) = (Keys::new(limits), limits.charge());
    let mut lists = Vec::with_capacity(count);
    for input in inputs {
        if input.rows.len() > 0 && input.rows.width != 3 + keys.len() {
            return Err(failure(
                "each input of an intersection has the columns id, ts, dur and the keys",
            ));
        }
        lists.push(partitions(&input.rows, &mut all_keys, &mut charge)?);
    }
    let mut found = Vec::new();
    for key in all_keys.sorted() {
        let of_inputs: Vec<&[Interval]> = lists
            .iter()
            .map(|lists| lists.get(key).map_or(&[][..], Vec::as_slice))
            .collect();
        if of_inputs.iter().all(|intervals| !intervals.is_empty()) {
            found.push((key, of_key(limits, &of_inputs)?));
        }
    }
    let mut order = Vec::new();
    for (group, (_, of_key)) in found.iter().enumerate() {
        charge.grow(16 * of_key.intervals.len() as u64)?;
        let intervals = 0..of_key.intervals.len() as u32;
        order.extend(intervals.map(|index| (group as u32, index)));
    }
    if found.len() > 1 {
        order.sort_by_key(|(group, index)| found[*group as usize].1.intervals[*index as usize].ts);
    }
    for (group, index) in order {
        let (key, of_key) = &found[group as usize];
        let interval = &of_key.intervals[index as usize];
        out.push(interval.ts)?;
        out.push(interval.end - interval.ts)?;
        let members = interval.row as usize * count..;
        for (input, row) in inputs.iter().zip(&of_key.members[members]) {
            out.push(input.rows.row(*row as usize)[0].clone())?;
        }
        out.extend(all_keys.values(*key).iter().cloned())?;
    }
    Ok(Object { names, rows: out })
}

/// Returns the names in a list of key columns in parentheses.
pub(super) fn key_names(list: &Value) -> Result<Vec<String>> {
    let Value::Text(list) = list else {
        return Err(failure("the key columns of an intersection must be a text"));
    };
    let list = list.trim().trim_start_matches('(').trim_end_matches(')');
    let names = list.split(',').map(str::trim);
    Ok(names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}
