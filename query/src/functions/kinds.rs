//! The kinds of values in columns.

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

/// The name of the aggregate function that returns a byte for each of its arguments: the kinds of
/// its values.
pub(crate) const NAME: &str = "__perfetto_kinds";

/// The largest number of arguments.
pub(crate) const MAX_COLUMNS: usize = 100;

pub(crate) const INTEGER: u8 = 1;
pub(crate) const REAL: u8 = 2;
pub(crate) const TEXT: u8 = 4;

struct Kinds;

impl Aggregate<Vec<u8>, Value> for Kinds {
    fn init(&self, context: &mut Context<'_>) -> Result<Vec<u8>> {
        Ok(vec![0; context.len()])
    }

    fn step(&self, context: &mut Context<'_>, kinds: &mut Vec<u8>) -> Result<()> {
        for (index, kinds) in kinds.iter_mut().enumerate() {
            *kinds |= match context.get_raw(index) {
                ValueRef::Integer(_) => INTEGER,
                ValueRef::Real(_) => REAL,
                ValueRef::Text(_) => TEXT,
                ValueRef::Null | ValueRef::Blob(_) => 0,
            };
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, kinds: Option<Vec<u8>>) -> Result<Value> {
        Ok(Value::Blob(kinds.unwrap_or_default()))
    }
}

/// Registers the function.
pub(super) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function(NAME, -1, flags, Kinds)
}
