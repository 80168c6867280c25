//! The critical path: who a thread waited for, from the graph of wakeups.

use std::collections::HashMap;

use rusqlite::Result;
use rusqlite::types::Value;

use super::graph::{id, ids};
use crate::limits::Limits;
use crate::objects::Object;
use crate::relations::StoredRows;

/// A period in which a thread runs, and the idle time before.
struct Wakeup {
    utid: i64,
    ts: i64,
    dur: i64,
    /// `None` if the idle time has no known start.
    idle: Option<i64>,
    waker: Option<i64>,
    /// The wakeup of the same thread before.
    previous: Option<i64>,
}

/// A part of the time of a root to explain.
struct Part {
    wakeup: i64,
    start: i64,
    end: i64,
    depth: i64,
    /// The number of wakeups on the way from the root.
    steps: usize,
}

/// The number of parts after which it is checked that the query may go on.
const CHECKED: u64 = 4096;

/// Reads rows `id, utid, ts, dur, idle_dur, waker_id, prev_id`.
fn wakeups(object: &Object, limits: &Limits) -> Result<HashMap<i64, Wakeup>> {
    let mut charge = limits.charge();
    let mut all = HashMap::new();
    for row in 0..object.rows.len() {
        let values = object.rows.row(row);
        let wanted = |place: usize, name| id(&values[place], name);
        let optional = |place: usize, name| match &values[place] {
            Value::Null => Ok(None),
            value => id(value, name).map(Some),
        };
        charge.grow(size_of::<(i64, Wakeup)>() as u64 * 2)?;
        let wakeup = Wakeup {
            utid: wanted(1, "the column 'utid' of a wakeup")?,
            ts: wanted(2, "the column 'ts' of a wakeup")?,
            dur: wanted(3, "the column 'dur' of a wakeup")?,
            idle: optional(4, "the column 'idle_dur' of a wakeup")?,
            waker: optional(5, "the column 'waker_id' of a wakeup")?,
            previous: optional(6, "the column 'prev_id' of a wakeup")?,
        };
        all.insert(wanted(0, "the column 'id' of a wakeup")?, wakeup);
    }
    Ok(all)
}

/// Returns the layers of the critical paths of roots.
pub(super) fn walk(graph: &Object, roots: &Object, limits: &Limits) -> Result<Object> {
    let names = [
        "root_id",
        "depth",
        "ts",
        "dur",
        "blocker_id",
        "blocker_utid",
        "parent_id",
    ];
    let mut rows = StoredRows::new(names.len(), limits);
    let all = wakeups(graph, limits)?;
    let (mut parts, mut count) = (Vec::new(), 0_u64);
    for root in ids(roots, "a root")? {
        let Some(wakeup) = all.get(&root) else {
            continue;
        };
        parts.push(Part {
            wakeup: root,
            start: wakeup.ts.saturating_sub(wakeup.idle.unwrap_or(0)),
            end: wakeup.ts.saturating_add(wakeup.dur),
            depth: 0,
            steps: 1,
        });
        while let Some(part) = parts.pop() {
            count += 1;
            if count % CHECKED == 0 {
                limits.check()?;
            }
            explain(root, &part, &all, &mut parts, &mut rows)?;
        }
    }
    let names = names.map(str::to_owned).to_vec();
    Ok(Object { names, rows })
}

/// Adds the rows of a part of the time, and the parts that other wakeups explain.
fn explain(
    root: i64,
    part: &Part,
    all: &HashMap<i64, Wakeup>,
    parts: &mut Vec<Part>,
    rows: &mut StoredRows,
) -> Result<()> {
    // A way longer than that is a cycle of a damaged graph.
    if part.start >= part.end || part.steps > all.len() {
        return Ok(());
    }
    let Some(wakeup) = all.get(&part.wakeup) else {
        return Ok(());
    };
    // An idle time without a start has the one of the part.
    let idle_start = wakeup
        .idle
        .map_or(part.start, |idle| wakeup.ts.saturating_sub(idle));
    // Time before the idle time belongs to the wakeup before, of the same thread.
    if let Some(previous) = wakeup.previous
        && wakeup.idle.is_some()
        && part.start < idle_start
    {
        parts.push(Part {
            wakeup: previous,
            start: part.start,
            end: part.end.min(idle_start),
            depth: part.depth,
            steps: part.steps + 1,
        });
    }
    let start = part.start.max(idle_start);
    let end = part.end.min(wakeup.ts.saturating_add(wakeup.dur));
    let mut add = |ts: i64, end: i64| {
        rows.extend(
            [
                root,
                part.depth,
                ts,
                end - ts,
                part.wakeup,
                wakeup.utid,
                root,
            ]
            .map(Value::Integer),
        )
    };
    if start >= end {
        return Ok(());
    }
    // The idle time belongs to the waker, or to the kernel, which has none.
    let idle_end = end.min(wakeup.ts);
    if start < idle_end {
        match wakeup.waker {
            Some(waker) => parts.push(Part {
                wakeup: waker,
                start,
                end: idle_end,
                depth: part.depth + 1,
                steps: part.steps + 1,
            }),
            None if wakeup.previous.is_some() => add(start, idle_end)?,
            None => {}
        }
    }
    let run_start = start.max(wakeup.ts);
    if run_start < end {
        add(run_start, end)?;
    }
    Ok(())
}
