//! SQL functions besides SQLite's own.

mod concat;
pub(crate) mod kinds;
mod layout;
mod math;
mod percentile;
mod stack;
mod text;
mod trace;
mod window;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result};

use crate::limits::Limits;

pub(crate) use self::concat::register as register_concat;
pub(crate) use self::text::{base64, fnv};
pub(crate) use self::trace::register as register_trace;

/// Registers the functions that do not read a trace.
pub(crate) fn register(connection: &Connection, limits: &Limits) -> Result<()> {
    rusqlite::vtab::series::load_module(connection)?;
    math::register(connection)?;
    window::register(connection, limits)?;
    layout::register(connection)?;
    kinds::register(connection)?;
    percentile::register(connection, limits)?;
    stack::register(connection, limits)?;
    text::register(connection, limits)
}

/// Registers a function that returns the same value for the same arguments. `count` is the number
/// of arguments, or -1 for any number.
fn scalar(
    connection: &Connection,
    name: &str,
    count: i32,
    function: impl Fn(&Context<'_>) -> Result<Value> + Send + 'static,
) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(name, count, flags, move |context| function(context))
}

/// Returns an error of a function.
fn failure<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::UserFunctionError(message.into().into()))
}

/// Returns an argument as an integer; `None` for NULL.
fn integer(context: &Context<'_>, index: usize, function: &str) -> Result<Option<i64>> {
    match context.get_raw(index) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(value) => Ok(Some(value)),
        _ => failure(format!(
            "{function}: argument {} must be an integer",
            index + 1
        )),
    }
}

/// Returns an argument as a number; `None` for other values.
fn real(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Integer(value) => Some(value as f64),
        ValueRef::Real(value) => Some(value),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}

/// Returns an argument as a text; `None` for NULL.
fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(value) => Some(value.to_string()),
        ValueRef::Real(value) => Some(format!("{value:?}")),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

fn optional<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}
