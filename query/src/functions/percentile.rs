//! `percentile(x, p)`, `percentile_cont(x, p)`, `percentile_disc(x, p)` and `median(x)`.

use std::panic::UnwindSafe;

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result};

use crate::limits::{Charge, Limits};

/// A function that returns the value below which a part of the values lies.
struct Percentile {
    name: &'static str,
    /// The part that is all values; `None` if the function has no argument for it.
    whole: Option<f64>,
    /// True if values between two are interpolated.
    is_continuous: bool,
    limits: Limits,
}

/// The values so far.
#[derive(Debug)]
struct Values {
    values: Vec<f64>,
    part: Option<f64>,
    charge: Charge,
}

impl UnwindSafe for Values {}

impl Percentile {
    fn failure<T>(&self, message: &str) -> Result<T> {
        let name = self.name;
        Err(Error::UserFunctionError(
            format!("{name}: {message}").into(),
        ))
    }
}

impl Aggregate<Values, Value> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<Values> {
        Ok(Values {
            values: Vec::new(),
            part: None,
            charge: self.limits.charge(),
        })
    }

    fn step(&self, context: &mut Context<'_>, values: &mut Values) -> Result<()> {
        if let Some(whole) = self.whole {
            let part = match context.get_raw(1) {
                ValueRef::Integer(part) => part as f64,
                ValueRef::Real(part) => part,
                _ => f64::NAN,
            };
            if !(0.0..=whole).contains(&part) {
                return self.failure(&format!("the part must be a number from 0 to {whole}"));
            }
            if *values.part.get_or_insert(part / whole) != part / whole {
                return self.failure("the part must be the same in all rows");
            }
        }
        values.values.push(match context.get_raw(0) {
            ValueRef::Null => return Ok(()),
            ValueRef::Integer(value) => value as f64,
            ValueRef::Real(value) if value.is_finite() => value,
            _ => return self.failure("the values must be finite numbers"),
        });
        values.charge.grow(8)
    }

    fn finalize(&self, _: &mut Context<'_>, values: Option<Values>) -> Result<Value> {
        let Some(mut values) = values else {
            return Ok(Value::Null);
        };
        let part = values.part.unwrap_or(0.5);
        let values = &mut values.values;
        values.sort_unstable_by(f64::total_cmp);
        let Some(last) = values.len().checked_sub(1) else {
            return Ok(Value::Null);
        };
        let rank = part * last as f64;
        let index = (rank as usize).min(last);
        let (low, high) = (values[index], values[(index + 1).min(last)]);
        Ok(Value::Real(if self.is_continuous && low != high {
            low + (high - low) * (rank - index as f64)
        } else {
            low
        }))
    }
}

pub(super) fn register(connection: &Connection, limits: &Limits) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, whole, is_continuous) in [
        ("percentile", Some(100.0), true),
        ("percentile_cont", Some(1.0), true),
        ("percentile_disc", Some(1.0), false),
        ("median", None, true),
    ] {
        let count = if whole.is_some() { 2 } else { 1 };
        let function = Percentile {
            name,
            whole,
            is_continuous,
            limits: limits.clone(),
        };
        connection.create_aggregate_function(name, count, flags, function)?;
    }
    Ok(())
}
