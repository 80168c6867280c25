//! `internal_layout(ts, dur)`: the first free line for each interval of a window.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rusqlite::functions::{Aggregate, Context, FunctionFlags, WindowAggregate};
use rusqlite::{Connection, Result};

use super::{failure, integer};

/// A function over all rows up to the current one.
struct Layout;

/// The lines so far.
#[derive(Debug, Default)]
struct Lines {
    /// The lines that are free again.
    free: BTreeSet<i64>,
    /// The ends of intervals on the other lines.
    busy: BinaryHeap<Reverse<(i64, i64)>>,
    used: i64,
    last_ts: Option<i64>,
    line: Option<i64>,
}

impl Lines {
    fn add(&mut self, ts: i64, dur: i64) -> Result<()> {
        if self.last_ts.is_some_and(|last| ts < last) {
            return failure("internal_layout: the window must be in the order of 'ts'");
        }
        self.last_ts = Some(ts);
        while let Some(Reverse((_, line))) = self.busy.peek().filter(|busy| busy.0.0 <= ts) {
            self.free.insert(*line);
            self.busy.pop();
        }
        let line = self.free.first().copied().unwrap_or(self.used);
        self.used = self.used.max(line + 1);
        self.free.remove(&line);
        // An instant does not occupy its line; an interval that has not ended does for ever.
        match dur {
            0 => drop(self.free.insert(line)),
            ..0 => self.busy.push(Reverse((i64::MAX, line))),
            _ => self.busy.push(Reverse((ts.saturating_add(dur), line))),
        }
        self.line = Some(line);
        Ok(())
    }
}

impl Aggregate<Lines, Option<i64>> for Layout {
    fn init(&self, _: &mut Context<'_>) -> Result<Lines> {
        Ok(Lines::default())
    }

    fn step(&self, context: &mut Context<'_>, lines: &mut Lines) -> Result<()> {
        let ts = integer(context, 0, "internal_layout")?;
        let dur = integer(context, 1, "internal_layout")?;
        match (ts, dur) {
            (Some(ts), Some(dur)) => lines.add(ts, dur),
            _ => failure("internal_layout: 'ts' and 'dur' must not be NULL"),
        }
    }

    fn finalize(&self, _: &mut Context<'_>, lines: Option<Lines>) -> Result<Option<i64>> {
        Ok(lines.and_then(|lines| lines.line))
    }
}

impl WindowAggregate<Lines, Option<i64>> for Layout {
    fn value(&self, lines: Option<&mut Lines>) -> Result<Option<i64>> {
        Ok(lines.and_then(|lines| lines.line))
    }

    fn inverse(&self, _: &mut Context<'_>, _: &mut Lines) -> Result<()> {
        failure("internal_layout: the window must begin with the first row of the partition")
    }
}

pub(super) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_window_function("internal_layout", 2, flags, Layout)
}
