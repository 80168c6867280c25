//! Reading the rows of a query with a function that may fail.

use std::ops::ControlFlow;

use rusqlite::types::ValueRef;

use crate::engine::{Engine, Rows};
use crate::error::SqlError;

/// The names of the columns, and a function for rows.
struct Reader<F> {
    names: Vec<String>,
    each: F,
    failure: Option<SqlError>,
}

impl<F: FnMut(&[String], &[ValueRef<'_>]) -> Result<(), SqlError>> Rows for Reader<F> {
    fn columns(&mut self, names: &[String]) -> ControlFlow<()> {
        self.names = names.to_vec();
        ControlFlow::Continue(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()> {
        match (self.each)(&self.names, values) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failure = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Calls `each` with the names of the columns and each row of statements. Returns the names of the
/// last statement's columns.
///
/// # Errors
///
/// Fails if a statement or `each` does.
pub(super) fn each_row(
    engine: &mut Engine,
    sql: &str,
    each: impl FnMut(&[String], &[ValueRef<'_>]) -> Result<(), SqlError>,
) -> Result<Vec<String>, SqlError> {
    let mut reader = Reader {
        names: Vec::new(),
        each,
        failure: None,
    };
    engine.run(sql, &mut reader)?;
    reader.failure.map_or(Ok(reader.names), Err)
}
