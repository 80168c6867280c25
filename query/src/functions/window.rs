//! Aggregate functions that are also window functions.

use std::collections::VecDeque;

use rusqlite::functions::{Aggregate, Context, FunctionFlags, WindowAggregate};
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use super::integer;
use crate::limits::{Charge, Limits};
use crate::sqlite::owned;

/// `last_non_null(x)`: the last value that is not NULL.
struct LastNonNull(Limits);

/// The values that are not NULL, with the numbers of their rows, and the rows of the window.
#[derive(Debug)]
struct Window {
    values: VecDeque<(u64, Value)>,
    first: u64,
    past: u64,
    charge: Charge,
}

impl Aggregate<Window, Value> for LastNonNull {
    fn init(&self, _: &mut Context<'_>) -> Result<Window> {
        Ok(Window {
            values: VecDeque::new(),
            first: 0,
            past: 0,
            charge: self.0.charge(),
        })
    }

    fn step(&self, context: &mut Context<'_>, window: &mut Window) -> Result<()> {
        let value = owned(context.get_raw(0));
        if value != Value::Null {
            window.charge.add(&value)?;
            window.values.push_back((window.past, value));
        }
        window.past += 1;
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, window: Option<Window>) -> Result<Value> {
        Ok(window
            .and_then(|mut window| window.values.pop_back())
            .map_or(Value::Null, |(_, v)| v))
    }
}

impl WindowAggregate<Window, Value> for LastNonNull {
    fn value(&self, window: Option<&mut Window>) -> Result<Value> {
        let last = window.and_then(|window| window.values.back());
        Ok(last.map_or(Value::Null, |(_, value)| value.clone()))
    }

    fn inverse(&self, _: &mut Context<'_>, window: &mut Window) -> Result<()> {
        window.first += 1;
        let first = window.first;
        while window
            .values
            .pop_front_if(|(row, _)| *row < first)
            .is_some()
        {}
        Ok(())
    }
}

/// `value_at_max_ts(ts, x)`: the value in the row with the largest `ts`.
struct ValueAtMaxTs;

impl Aggregate<Option<(i64, Value)>, Value> for ValueAtMaxTs {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<(i64, Value)>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, last: &mut Option<(i64, Value)>) -> Result<()> {
        if let Some(ts) = integer(context, 0, "value_at_max_ts")?
            && last.as_ref().is_none_or(|(known, _)| *known < ts)
        {
            *last = Some((ts, owned(context.get_raw(1))));
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, last: Option<Option<(i64, Value)>>) -> Result<Value> {
        Ok(last.flatten().map_or(Value::Null, |(_, value)| value))
    }
}

pub(super) fn register(connection: &Connection, limits: &Limits) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_aggregate_function("value_at_max_ts", 2, flags, ValueAtMaxTs)?;
    connection.create_window_function("last_non_null", 1, flags, LastNonNull(limits.clone()))
}
