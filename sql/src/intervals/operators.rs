//! Operators whose inputs are rows that aggregate functions have collected.

use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use super::sweep::{Interval, compare_keys, intersect, runs, sort};
use crate::limits::Limits;
use crate::objects::{Object, Objects, failure};
use crate::relations::{Stored, StoredRows};
use crate::sqlite::Relations;

/// The largest number of inputs and of key columns of an intersection.
const MAX_INPUTS: usize = 15;
const MAX_KEYS: usize = 6;
/// The number of bytes of an intersection that is not complete, without its key.
const PAIR: usize = 128;

/// Registers the operators.
pub(crate) fn register(
    connection: &Connection,
    relations: &Relations,
    objects: &Objects,
) -> Result<()> {
    let names = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect();
    for count in 1..=MAX_INPUTS {
        let objects = objects.clone();
        let relation = Stored::new(
            names("c", 2 + count + MAX_KEYS),
            names("input", count),
            move |arguments| {
                let inputs: Vec<_> = arguments
                    .iter()
                    .map(|number| objects.get(number.into()))
                    .collect::<Result<_>>()?;
                intersect_all(objects.limits(), &inputs).map(Arc::new)
            },
        );
        relations.register(
            connection,
            &format!("__perfetto_intersect_{count}"),
            relation,
        )?;
    }
    let of = objects.clone();
    let relation = Stored::new(names("c", 5), names("input", 1), move |arguments| {
        let input = of.get((&arguments[0]).into())?;
        self_intersect(of.limits(), &input.rows).map(Arc::new)
    });
    relations.register(connection, "__perfetto_self_intersect", relation)?;
    let of = objects.clone();
    let relation = Stored::new(
        names("c", 2 + MAX_KEYS),
        names("input", 2),
        move |arguments| {
            let left = of.get((&arguments[0]).into())?;
            let right = of.get((&arguments[1]).into())?;
            as_of(of.limits(), &left.rows, &right.rows).map(Arc::new)
        },
    );
    relations.register(connection, "__perfetto_as_of", relation)
}

/// Reads an integer of an input.
fn integer(value: &Value, name: &str) -> Result<i64> {
    match value {
        Value::Integer(value) => Ok(*value),
        _ => Err(failure(format!(
            "the column '{name}' of an interval must be an integer"
        ))),
    }
}

/// Returns the intervals of rows `id, ts, dur, keys…`. Those with NULL in a key are left out.
fn intervals(rows: &StoredRows) -> Result<Vec<Interval>> {
    let mut all = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let values = rows.row(row);
        let (ts, dur) = (&values[1], &values[2]);
        if *ts == Value::Null || *dur == Value::Null || values[3..].contains(&Value::Null) {
            continue;
        }
        let (ts, dur) = (integer(ts, "ts")?, integer(dur, "dur")?);
        if dur < 0 {
            return Err(failure(
                "the column 'dur' of an interval must not be negative",
            ));
        }
        all.push(Interval {
            key: values[3..].to_vec(),
            ts,
            end: ts.saturating_add(dur),
            row,
        });
    }
    sort(&mut all);
    Ok(all)
}

/// Returns rows `ts, dur, id of each input…, keys…`.
fn intersect_all(limits: &Limits, inputs: &[Arc<Object>]) -> Result<StoredRows> {
    let mut out = StoredRows::new(2 + inputs.len() + MAX_KEYS, limits);
    let Some((first, rest)) = inputs.split_first() else {
        return Ok(out);
    };
    // The intersections so far, and their rows in each input.
    let mut found = intervals(&first.rows)?;
    let mut members: Vec<Vec<usize>> = found.iter().map(|interval| vec![interval.row]).collect();
    for (place, interval) in found.iter_mut().enumerate() {
        interval.row = place;
    }
    for input in rest {
        let others = intervals(&input.rows)?;
        let mut charge = limits.charge();
        let (mut next, mut next_members) = (Vec::new(), Vec::new());
        let mut other_runs = runs(&others).peekable();
        for run in runs(&found) {
            let key = &run[0].key;
            while other_runs
                .next_if(|other| compare_keys(&other[0].key, key).is_lt())
                .is_some()
            {}
            let Some(other) = other_runs.next_if(|other| compare_keys(&other[0].key, key).is_eq())
            else {
                continue;
            };
            intersect(run, other, |left, right, ts, end| {
                charge.grow((PAIR + key.len() * size_of::<Value>()) as u64)?;
                let mut rows = members[run[left].row].clone();
                rows.push(other[right].row);
                next.push(Interval {
                    key: key.clone(),
                    ts,
                    end,
                    row: next_members.len(),
                });
                next_members.push(rows);
                Ok(())
            })?;
        }
        sort(&mut next);
        (found, members) = (next, next_members);
    }
    found.sort_by_key(|interval| interval.ts);
    for interval in found {
        out.push(interval.ts)?;
        out.push(interval.end - interval.ts)?;
        for (input, row) in inputs.iter().zip(&members[interval.row]) {
            out.push(input.rows.row(*row)[0].clone())?;
        }
        out.extend(interval.key)?;
        out.complete()?;
    }
    Ok(out)
}

/// Returns rows `ts, dur, group_id, id, interval_ends_at_ts` for rows `id, ts, dur`: the pieces
/// between all starts and ends, with the intervals that contain them.
fn self_intersect(limits: &Limits, rows: &StoredRows) -> Result<StoredRows> {
    let all = intervals(rows)?;
    let mut out = StoredRows::new(5, limits);
    let mut times: Vec<i64> = all.iter().flat_map(|i| [i.ts, i.end]).collect();
    times.sort_unstable();
    times.dedup();
    let (mut next, mut group) = (0, 0);
    let mut open: Vec<&Interval> = Vec::new();
    for (place, ts) in times.iter().enumerate() {
        let ended: Vec<&Interval> = open.iter().filter(|i| i.end <= *ts).copied().collect();
        open.retain(|interval| interval.end > *ts);
        while let Some(interval) = all.get(next).filter(|interval| interval.ts <= *ts) {
            open.push(interval);
            next += 1;
        }
        let dur = times.get(place + 1).map_or(0, |end| end - ts);
        if open.is_empty() && ended.is_empty() {
            continue;
        }
        group += 1;
        let members = open
            .iter()
            .map(|i| (i, 0))
            .chain(ended.iter().map(|i| (i, 1)));
        for (interval, ends) in members {
            out.extend([ts, &dur, &group].map(|value| Value::Integer(*value)))?;
            out.push(rows.row(interval.row)[0].clone())?;
            out.push(Value::Integer(ends))?;
        }
        open.retain(|interval| interval.end > *ts);
    }
    Ok(out)
}

/// Returns rows `left row, right row, ts of the right row` for rows `ts, keys…`: for each left row,
/// the last right row of its key that is not later. Rows are numbered from 1.
fn as_of(limits: &Limits, left: &StoredRows, right: &StoredRows) -> Result<StoredRows> {
    let points = |rows: &StoredRows| -> Result<Vec<Interval>> {
        let mut all = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            let values = rows.row(row);
            if values[0] != Value::Null {
                let ts = integer(&values[0], "ts")?;
                all.push(Interval {
                    key: values[1..].to_vec(),
                    ts,
                    end: ts,
                    row,
                });
            }
        }
        sort(&mut all);
        Ok(all)
    };
    let (left, right) = (points(left)?, points(right)?);
    let mut found = Vec::with_capacity(left.len());
    let mut at = 0;
    for point in &left {
        let is_before = |other: &Interval| {
            compare_keys(&other.key, &point.key)
                .then(other.ts.cmp(&point.ts))
                .is_le()
        };
        while right.get(at).is_some_and(is_before) {
            at += 1;
        }
        let last = at.checked_sub(1).map(|last| &right[last]);
        let is_of_key = |other: &&Interval| {
            compare_keys(&other.key, &point.key).is_eq() && !other.key.contains(&Value::Null)
        };
        found.push((point.row, last.filter(is_of_key)));
    }
    found.sort_by_key(|(row, _)| *row);
    let mut out = StoredRows::new(3, limits);
    let number = |row: usize| Value::Integer(row as i64 + 1);
    for (row, other) in found {
        out.push(number(row))?;
        out.push(other.map_or(Value::Null, |other| number(other.row)))?;
        out.push(other.map_or(Value::Null, |other| Value::Integer(other.ts)))?;
    }
    Ok(out)
}

/// Returns `, column AS name` for each name, from a column on.
fn renamed(from: usize, names: &[String]) -> String {
    let names = names.iter().enumerate();
    names
        .map(|(place, name)| format!(", c{} AS {name}", from + place))
        .collect()
}

/// Returns the call that collects rows of an input with these columns.
fn collected(columns: &str, keys: &[String], input: &str) -> String {
    let keys: String = keys.iter().map(|key| format!(", {key}")).collect();
    format!("(SELECT __perfetto_rows({columns}{keys}) FROM {input})")
}

/// Returns the SQL of `_interval_intersect!((inputs), (keys))`.
pub(crate) fn intersect_sql(inputs: &[String], keys: &[String]) -> String {
    let rows: Vec<_> = inputs
        .iter()
        .map(|input| collected("id, ts, dur", keys, input))
        .collect();
    let ids: Vec<_> = (0..inputs.len())
        .map(|place| format!("id_{place}"))
        .collect();
    format!(
        "(SELECT c0 AS ts, c1 AS dur{}{} FROM __perfetto_intersect_{}({}))",
        renamed(2, &ids),
        renamed(2 + inputs.len(), keys),
        inputs.len(),
        rows.join(", ")
    )
}

/// Returns the SQL of `interval_self_intersect!(input)`.
pub(crate) fn self_intersect_sql(input: &str) -> String {
    let names = ["group_id", "id", "interval_ends_at_ts"].map(str::to_owned);
    let rows = collected("id, ts, dur", &[], input);
    let renamed = renamed(2, &names);
    format!("(SELECT c0 AS ts, c1 AS dur{renamed} FROM __perfetto_self_intersect({rows}))")
}

/// Returns the SQL of `asof_join!(left, right, (keys))`. Columns of the right side with the name of
/// a left one are renamed by SQLite.
pub(crate) fn asof_sql(left: &str, right: &str, keys: &[String]) -> String {
    let (of_left, of_right) = (collected("ts", keys, left), collected("ts", keys, right));
    format!(
        "(SELECT l.*, m.c2 AS right_ts, r.* FROM __perfetto_as_of({of_left}, {of_right}) m \
         JOIN (SELECT *, row_number() OVER () AS __left FROM {left}) l ON l.__left = m.c0 \
         LEFT JOIN (SELECT *, row_number() OVER () AS __right FROM {right}) r \
         ON r.__right = m.c1)"
    )
}
