//! Operators whose inputs are rows that aggregate functions have collected, and the SQL that calls
//! them.

use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use super::as_of::as_of;
use super::flatten::flatten;
use super::intersect::{intersections, key_names};
use super::partition::{Keys, partitions};
use super::points::{counter_intervals, create};
use super::sweep::Interval;
use crate::limits::Limits;
use crate::objects::{Objects, failure};
use crate::relations::{Stored, StoredRows, pointer_sql};
use crate::sqlite::{Relations, owned};

/// Registers the operators.
pub(crate) fn register(
    connection: &Connection,
    relations: &Relations,
    objects: &Objects,
) -> Result<()> {
    functions(connection, objects)?;
    let names = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect();
    let of = objects.clone();
    let relation = Stored::new(names("c", 5), names("input", 1), move |arguments| {
        let input = of.get((&arguments[0]).into())?;
        self_intersect(of.limits(), &input.rows).map(Arc::new)
    });
    relations.register(connection, "__perfetto_self_intersect", relation)?;
    let of = objects.clone();
    let relation = Stored::new(names("c", 4), names("input", 1), move |arguments| {
        let input = of.get((&arguments[0]).into())?;
        flatten(&input.rows, of.limits()).map(Arc::new)
    });
    relations.register(connection, "__perfetto_flatten", relation)?;
    let of = objects.clone();
    let relation = Stored::new(names("c", 3), names("input", 2), move |arguments| {
        let left = of.get((&arguments[0]).into())?;
        let right = of.get((&arguments[1]).into())?;
        as_of(of.limits(), &left.rows, &right.rows).map(Arc::new)
    });
    relations.register(connection, "__perfetto_as_of", relation)
}

/// Registers the functions that take objects and return one.
fn functions(connection: &Connection, objects: &Objects) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let of = objects.clone();
    connection.create_scalar_function(
        "__intrinsic_interval_intersect",
        -1,
        flags,
        move |context| {
            let Some(last) = context.len().checked_sub(1) else {
                return Err(failure("an intersection has inputs and a list of keys"));
            };
            let inputs = (0..last).map(|index| of.get(context.get_raw(index)));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let keys = key_names(&owned(context.get_raw(last)))?;
            let found = intersections(of.limits(), &inputs, &keys)?;
            Ok(Value::Integer(of.add(found)))
        },
    )?;
    let of = objects.clone();
    connection.create_scalar_function(
        "__intrinsic_counter_intervals",
        3,
        flags,
        move |context| {
            let kind = owned(context.get_raw(0));
            if !matches!(&kind, Value::Text(kind) if kind.eq_ignore_ascii_case("leading")) {
                return Err(failure("the intervals of a counter must be 'leading'"));
            }
            let ValueRef::Integer(end) = context.get_raw(1) else {
                return Err(failure("the end of a counter must be an integer"));
            };
            let counts = of.get(context.get_raw(2))?;
            let found = counter_intervals(&counts, end, of.limits())?;
            Ok(Value::Integer(of.add(found)))
        },
    )?;
    let of = objects.clone();
    connection.create_scalar_function("__intrinsic_interval_create", 2, flags, move |context| {
        let (starts, ends) = (of.get(context.get_raw(0))?, of.get(context.get_raw(1))?);
        let found = create(&starts, &ends, of.limits())?;
        Ok(Value::Integer(of.add(found)))
    })
}

/// Returns rows `ts, dur, group_id, id, interval_ends_at_ts` for rows `id, ts, dur`: the pieces
/// between all starts and ends, with the intervals that contain them.
fn self_intersect(limits: &Limits, rows: &StoredRows) -> Result<StoredRows> {
    let (mut keys, mut charge) = (Keys::new(limits), limits.charge());
    let all = partitions(rows, &mut keys, &mut charge)?.pop();
    let all = all.unwrap_or_default();
    let mut out = StoredRows::new(5, limits);
    let mut times: Vec<i64> = all.iter().flat_map(|i| [i.ts, i.end]).collect();
    times.sort_unstable();
    times.dedup();
    let (mut next, mut group) = (0, 0);
    let mut open: Vec<&Interval> = Vec::new();
    for (index, ts) in times.iter().enumerate() {
        let ended: Vec<&Interval> = open.iter().filter(|i| i.end <= *ts).copied().collect();
        open.retain(|interval| interval.end > *ts);
        while let Some(interval) = all.get(next).filter(|interval| interval.ts <= *ts) {
            open.push(interval);
            next += 1;
        }
        let dur = times.get(index + 1).map_or(0, |end| end - ts);
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
            out.push(rows.row(interval.row as usize)[0].clone())?;
            out.push(Value::Integer(ends))?;
        }
        open.retain(|interval| interval.end > *ts);
    }
    Ok(out)
}

/// Returns `, column AS name` for each name, from a column on.
fn renamed(from: usize, names: &[String]) -> String {
    let names = names.iter().enumerate();
    names
        .map(|(index, name)| format!(", c{} AS {name}", from + index))
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
    let ids = (0..inputs.len()).map(|input| format!("id_{input}"));
    let names = ["ts".to_owned(), "dur".to_owned()].into_iter().chain(ids);
    let names: Vec<String> = names
        .chain(keys.iter().map(|key| key.trim().to_owned()))
        .collect();
    let list = keys.join(", ").replace('\'', "''");
    let call = format!(
        "__intrinsic_interval_intersect({}, '{list}')",
        rows.join(", ")
    );
    let columns: Vec<(&str, String)> = names
        .iter()
        .map(|name| (name.as_str(), name.clone()))
        .collect();
    pointer_sql(&call, &columns)
}

/// Returns the SQL of `interval_self_intersect!(input)`.
pub(crate) fn self_intersect_sql(input: &str) -> String {
    let names = ["group_id", "id", "interval_ends_at_ts"].map(str::to_owned);
    let rows = collected("id, ts, dur", &[], input);
    let renamed = renamed(2, &names);
    format!("(SELECT c0 AS ts, c1 AS dur{renamed} FROM __perfetto_self_intersect({rows}))")
}

/// Returns the SQL of `_intervals_flatten!(children with their roots)`.
pub(crate) fn flatten_sql(input: &str) -> String {
    let columns = "root_id, root_ts, root_dur, id, parent_id, ts, dur";
    let rows = collected(columns, &[], input);
    let names = ["root_id", "id", "ts", "dur"].map(str::to_owned);
    let names = names.iter().enumerate();
    let columns: Vec<_> = names
        .map(|(index, name)| format!("c{index} AS {name}"))
        .collect();
    format!(
        "(SELECT {} FROM __perfetto_flatten({rows}))",
        columns.join(", ")
    )
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
