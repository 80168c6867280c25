//! `why_intervals(utid, ts, dur)`: the causes of an interval of a thread.

use std::sync::{Arc, OnceLock};

use ferretto_tables::{StringId, Trace};
use ferretto_why::{Cause, ExplainedWait, Explanation, Piece, Prepared, Why};
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use super::{Stored, StoredRows};
use crate::limits::Limits;
use crate::objects::failure;
use crate::sqlite::Relations;

const NAME: &str = "why_intervals";
const COLUMNS: [&str; 11] = [
    "ts",
    "dur",
    "utid",
    "cause",
    "name",
    "wait_kind",
    "other_utid",
    "depth",
    "own_wait_kind",
    "own_waker_utid",
    "callsite_id",
];

/// Returns the name of the system call or interrupt of a cause.
fn name_of(cause: Cause) -> Option<StringId> {
    match cause {
        Cause::Call(name) | Cause::Interrupt(name) => Some(name),
        _ => None,
    }
}

/// Returns the thread that a cause blames apart from the one that the time belongs to.
fn other_of(cause: Cause) -> Option<u32> {
    match cause {
        Cause::Behind(other) => Some(other),
        Cause::Wait(_, waker) => waker,
        _ => None,
    }
}

/// Returns the innermost and the outermost wait of a part.
fn waits<'a>(
    explanation: &'a Explanation,
    piece: &Piece,
) -> Option<(&'a ExplainedWait, &'a ExplainedWait)> {
    let wait = |at: u32| explanation.waits.get(at as usize);
    let inner = wait(piece.wait?)?;
    let mut outer = inner;
    while let Some(parent) = outer.wait.parent.and_then(wait) {
        outer = parent;
    }
    Some((inner, outer))
}

fn rows(why: &Why<'_>, arguments: &[Value], limits: &Limits) -> Result<StoredRows> {
    let mut rows = StoredRows::new(COLUMNS.len(), limits);
    let (thread, ts, dur) = match arguments {
        [
            Value::Integer(thread),
            Value::Integer(ts),
            Value::Integer(dur),
        ] => (*thread, *ts, *dur),
        // Joins have rows without a thread or a time.
        _ if arguments.contains(&Value::Null) => return Ok(rows),
        _ => return Err(failure("why_intervals takes a utid, a time and a duration")),
    };
    let Ok(thread) = u32::try_from(thread) else {
        return Ok(rows);
    };
    // Slices and states that do not end have the duration -1.
    let end = match dur {
        0.. => ts.saturating_add(dur),
        _ => why.trace().tables().trace_bounds.end_ts().get(0),
    };
    if ts >= end {
        return Ok(rows);
    }
    let explanation = why.explain(thread, ts..end);
    let text = |name: StringId| why.trace().strings().get(name).map(str::to_owned);
    let number = |id: u32| i64::from(id);
    for piece in &explanation.pieces {
        let waits = waits(&explanation, piece);
        let kind = match piece.cause {
            Cause::Wait(kind, _) => Some(kind.name().to_owned()),
            _ => None,
        };
        let is_own_stack = matches!(piece.cause, Cause::Wait(..));
        let stack_of_wait = waits
            .filter(|_| is_own_stack)
            .and_then(|(inner, _)| inner.callsite);
        rows.push(piece.start)?;
        rows.push(piece.end - piece.start)?;
        rows.push(number(piece.thread))?;
        rows.push(piece.cause.name().to_owned())?;
        rows.push(name_of(piece.cause).and_then(text))?;
        rows.push(kind)?;
        rows.push(other_of(piece.cause).map(number))?;
        rows.push(number(explanation.depth(piece)))?;
        rows.push(waits.map(|(_, outer)| outer.kind.name().to_owned()))?;
        rows.push(waits.and_then(|(_, outer)| outer.waker()).map(number))?;
        rows.push(piece.callsite.or(stack_of_wait).map(number))?;
    }
    Ok(rows)
}

/// Registers the table.
pub(crate) fn register(
    connection: &Connection,
    relations: &Relations,
    trace: &Arc<Trace>,
    limits: &Limits,
) -> Result<()> {
    let (trace, limits) = (trace.clone(), limits.clone());
    // Preparing a large trace takes a second.
    let prepared: OnceLock<Arc<Prepared>> = OnceLock::new();
    let relation = Stored::new(
        COLUMNS.map(str::to_owned).to_vec(),
        ["in_utid", "in_ts", "in_dur"].map(str::to_owned).to_vec(),
        move |arguments| {
            let prepared = prepared.get_or_init(|| Arc::new(Prepared::new(&trace)));
            let why = Why::with(&trace, prepared.clone());
            rows(&why, arguments, &limits).map(Arc::new)
        },
    );
    relations.register(connection, NAME, relation)
}
