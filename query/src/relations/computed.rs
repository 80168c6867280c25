//! Tables that are computed from a trace and arguments, for any engine of SQL.

use std::fmt;
use std::sync::Arc;

use ferretto_tables::Trace;
/// A value of a row.
pub use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Result};

use super::stored::{Stored, StoredRows};
use crate::limits::Limits;
use crate::sqlite::Relations;

/// The kind of the values of a column, all of which may also be NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integers.
    Integers,
    /// Reals and integers.
    Reals,
    /// Texts.
    Texts,
}

/// Rows of values.
#[derive(Debug)]
pub struct Cells(pub(crate) StoredRows);

impl Cells {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values of a row, in the order of the columns.
    pub fn row(&self, row: usize) -> &[Cell] {
        self.0.row(row)
    }
}

type Compute = fn(&Trace, &[Cell], &Limits) -> Result<StoredRows>;

/// A table that is computed when it is called with arguments.
#[derive(Clone, Copy)]
pub struct Computed {
    /// The name of the table.
    pub name: &'static str,
    /// The names of the arguments.
    pub arguments: &'static [&'static str],
    /// The names and kinds of the columns.
    pub columns: &'static [(&'static str, Kind)],
    pub(super) compute: Compute,
}

impl fmt::Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Computed").field(&self.name).finish()
    }
}

impl Computed {
    /// Returns the rows for all arguments. There is no limit of memory or time.
    ///
    /// # Errors
    ///
    /// Fails if an argument is not valid.
    pub fn rows(&self, trace: &Trace, arguments: &[Cell]) -> Result<Cells> {
        (self.compute)(trace, arguments, &Limits::default()).map(Cells)
    }

    /// Registers the table.
    pub(crate) fn register(
        &self,
        connection: &Connection,
        relations: &Relations,
        trace: &Arc<Trace>,
        limits: &Limits,
    ) -> Result<()> {
        let (compute, trace, limits) = (self.compute, trace.clone(), limits.clone());
        let columns = self.columns.iter().map(|(name, _)| (*name).to_owned());
        let relation = Stored::new(
            columns.collect(),
            self.arguments.iter().map(ToString::to_string).collect(),
            move |arguments| compute(&trace, arguments, &limits).map(Arc::new),
        );
        relations.register(connection, self.name, relation)
    }
}
