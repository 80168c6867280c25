//! The critical path: who a thread waited for, from the graph of wakeups.
//!
//! A wakeup begins a period in which a thread runs, after a time in which it was idle. A root asks
//! for an explanation of its own idle and running time. The time of a thread is explained backwards
//! along its wakeups: it runs, or its waker is the reason. So each layer of an explanation gives
//! the times that the next one, that of the wakers, has to explain.

use rusqlite::Result;
use rusqlite::types::Value;

use super::graph::{id, ids};
use super::lists::Numbering;
use crate::limits::Limits;
use crate::objects::Object;
use crate::relations::StoredRows;

/// A period in which a thread runs, and the idle time before.
#[derive(Debug, Clone, Copy)]
struct Wakeup {
    id: i64,
    utid: i64,
    ts: i64,
    dur: i64,
    /// `None` if the idle time has no known start.
    idle: Option<i64>,
    waker: Option<i64>,
    /// The wakeup of the same thread before.
    previous: Option<i64>,
}

impl Wakeup {
    /// Reads a row `id, utid, ts, dur, idle_dur, waker_id, prev_id`.
    fn read(values: &[Value]) -> Result<Self> {
        let wanted = |column: usize, name| id(&values[column], name);
        let optional = |column: usize, name| match &values[column] {
            Value::Null => Ok(None),
            value => id(value, name).map(Some),
        };
        Ok(Self {
            id: wanted(0, "the column 'id' of a wakeup")?,
            utid: wanted(1, "the column 'utid' of a wakeup")?,
            ts: wanted(2, "the column 'ts' of a wakeup")?,
            dur: wanted(3, "the column 'dur' of a wakeup")?,
            idle: optional(4, "the column 'idle_dur' of a wakeup")?,
            waker: optional(5, "the column 'waker_id' of a wakeup")?,
            previous: optional(6, "the column 'prev_id' of a wakeup")?,
        })
    }

    /// Returns the start of the idle time, if it is known.
    fn idle_start(&self) -> Option<i64> {
        self.idle.map(|idle| self.ts.saturating_sub(idle))
    }

    fn end(&self) -> i64 {
        self.ts.saturating_add(self.dur)
    }
}

/// The wakeups of a trace.
struct Wakeups {
    numbers: Numbering,
    all: Vec<Wakeup>,
}

impl Wakeups {
    fn read(object: &Object, limits: &Limits) -> Result<Self> {
        let mut charge = limits.charge();
        charge.grow(2 * (size_of::<Wakeup>() * object.rows.len()) as u64)?;
        let rows = (0..object.rows.len()).map(|row| Wakeup::read(object.rows.row(row)));
        let mut all = rows.collect::<Result<Vec<_>>>()?;
        // Of several rows with one id, the last one counts.
        all.reverse();
        all.sort_by_key(|wakeup| wakeup.id);
        all.dedup_by_key(|wakeup| wakeup.id);
        let numbers = Numbering::new(all.iter().map(|wakeup| wakeup.id).collect());
        Ok(Self { numbers, all })
    }

    fn get(&self, id: i64) -> Option<&Wakeup> {
        self.numbers.number(id).map(|at| &self.all[at as usize])
    }

    /// Returns a wakeup that is a cause of another one, so it is earlier. The graph of a damaged
    /// trace may have cycles.
    fn cause(&self, id: Option<i64>, of: &Wakeup) -> Option<&Wakeup> {
        let cause = self.get(id?)?;
        ((cause.ts, cause.id) < (of.ts, of.id)).then_some(cause)
    }
}

/// A time that a layer has to explain, by a wakeup and those of its thread before.
struct Question<'a> {
    wakeup: &'a Wakeup,
    start: i64,
    end: i64,
    /// The wakeup whose idle time it is, or the root.
    parent: i64,
}

/// The number of questions after which it is checked that the query may go on.
const CHECKED: u64 = 4096;

/// Adds the rows of one layer of a root, and returns the questions of the next one.
fn explain<'a>(
    wakeups: &'a Wakeups,
    (root, depth): (i64, i64),
    questions: &[Question<'a>],
    rows: &mut StoredRows,
) -> Result<Vec<Question<'a>>> {
    let mut next = Vec::new();
    for question in questions {
        let mut end = question.end;
        let mut cause = Some(question.wakeup);
        while let Some(wakeup) = cause.filter(|_| question.start < end) {
            // An idle time without a known start is that of the whole question.
            let idle_start = wakeup.idle_start().unwrap_or(question.start);
            let start = idle_start.max(question.start);
            let stop = wakeup.end().min(end);
            let mut add = |ts: i64, end: i64| {
                if ts >= end {
                    return Ok(());
                }
                let parent = question.parent;
                let dur = end.saturating_sub(ts);
                let row = [root, depth, ts, dur, wakeup.id, wakeup.utid, parent];
                rows.extend(row.map(Value::Integer))
            };
            add(wakeup.ts.max(start), stop)?;
            let idle_end = wakeup.ts.min(stop);
            match wakeup.waker {
                Some(_) => next.extend(wakeups.cause(wakeup.waker, wakeup).map(|waker| Question {
                    wakeup: waker,
                    start,
                    end: idle_end,
                    parent: wakeup.id,
                })),
                // Without a waker, the thread is in the kernel, unless nothing is known of it.
                None if wakeup.previous.is_some() => add(start, idle_end)?,
                None => {}
            }
            cause = match wakeup.idle {
                Some(_) => wakeups.cause(wakeup.previous, wakeup),
                None => None,
            };
            end = end.min(idle_start);
        }
    }
    next.retain(|question| question.start < question.end);
    Ok(next)
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
    let wakeups = Wakeups::read(graph, limits)?;
    let mut count = 0_u64;
    for root in ids(roots, "a root")? {
        let questions = wakeups.get(root).map(|wakeup| Question {
            wakeup,
            start: wakeup.idle_start().unwrap_or(wakeup.ts),
            end: wakeup.end(),
            parent: root,
        });
        let mut questions: Vec<_> = questions.into_iter().collect();
        let mut depth = 0;
        while !questions.is_empty() {
            let before = count / CHECKED;
            count += questions.len() as u64;
            if count / CHECKED > before {
                limits.check()?;
            }
            questions = explain(&wakeups, (root, depth), &questions, &mut rows)?;
            depth += 1;
        }
    }
    let names = names.map(str::to_owned).to_vec();
    Ok(Object { names, rows })
}
