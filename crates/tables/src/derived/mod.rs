//! Tables that are computed when they are first asked for.
//!
//! Of what the scheduler does, an import keeps a [log](log::SchedLog) of some fifteen bytes an
//! event. The tables that follow from it take several times as much, though they are packed, and
//! few questions need all of them.

mod filling;
mod log;
mod raw;
mod states;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::column::{ColumnView, Packed};
use crate::schema::TableId;
use crate::table::{Table, TableSpec};

pub(crate) use self::log::{Created, RawWake, SchedLog, Switch, Wake};
pub(crate) use self::raw::{RawArgs, RawPart};

/// A table that is computed when it is first asked for.
///
/// It is used as the table itself. The first use may take as long as a part of the import did.
#[derive(Debug, Default)]
pub struct Derived<T> {
    /// Rows that do not follow from the log.
    pub(crate) rows: T,
    log: Option<Arc<SchedLog>>,
    table: OnceLock<T>,
}

/// A table that follows from a log.
pub trait Derive: Table + Default {
    /// Its name.
    const ID: TableId;

    /// Returns how many rows follow from the log at most.
    fn most_rows(log: &SchedLog) -> usize;

    /// Returns the rows that follow from the log, and these where the log says.
    fn derive(log: &SchedLog, rows: &Self) -> Self;
}

impl<T: Derive> Derived<T> {
    /// Computes rows from a log from now on.
    pub(crate) fn attach(&mut self, log: &Arc<SchedLog>) {
        if !log.is_empty() {
            self.log = Some(log.clone());
        }
    }

    /// Returns true if the rows are there without being computed.
    pub fn is_computed(&self) -> bool {
        self.log.is_none() || self.table.get().is_some()
    }
}

impl<T: Derive> Deref for Derived<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.log {
            None => &self.rows,
            Some(log) => self.table.get_or_init(|| T::derive(log, &self.rows)),
        }
    }
}

impl<T: Derive> Table for Derived<T> {
    fn spec(&self) -> &'static TableSpec {
        self.rows.spec()
    }

    fn rows(&self) -> usize {
        (**self).rows()
    }

    fn column(&self, place: usize) -> Option<ColumnView<'_>> {
        (**self).column(place)
    }

    fn memory(&self) -> usize {
        self.rows.memory() + self.table.get().map_or(0, Table::memory)
    }

    fn most_memory(&self) -> usize {
        match &self.log {
            Some(log) if !self.is_computed() => {
                let rows = T::most_rows(log) + self.rows.rows();
                let packed = self.spec().columns.len() * Packed::overhead(rows);
                self.rows.memory() + self.spec().memory_of(rows) + packed
            }
            _ => self.memory(),
        }
    }
}
