//! Tables that are computed on first use.
//!
//! The import records scheduler events in a [log](log::SchedLog) of about fifteen bytes per event.
//! The derived tables take several times as much, although they are packed, and few queries need
//! all of them.

mod filling;
mod log;
mod raw;
mod saving;
mod states;

use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::column::{ColumnView, Packed};
use crate::saved::{Reader, Saved, Writer};
use crate::schema::TableId;
use crate::table::{Table, TableSpec};

pub(crate) use self::log::{Created, RawWake, SchedLog, Switch, Wake};
pub(crate) use self::raw::{RawArgs, RawPart};

/// A table that is computed on first use.
///
/// It dereferences to the table. The first use may take as long as a part of the import.
#[derive(Debug, Default)]
pub struct Derived<T> {
    /// Rows that are not derived from the log.
    pub(crate) rows: T,
    log: Option<Arc<SchedLog>>,
    table: OnceLock<T>,
}

/// A table that is derived from a log.
pub trait Derive: Table + Default {
    /// The id of the table.
    const ID: TableId;

    /// Returns the maximum number of rows that are derived from the log.
    fn max_rows(log: &SchedLog) -> usize;

    /// Returns the rows that are derived from the log, with `rows` inserted at the recorded
    /// positions.
    fn derive(log: &SchedLog, rows: &Self) -> Self;
}

impl<T: Derive> Derived<T> {
    /// Sets the log from which rows are derived.
    pub(crate) fn attach(&mut self, log: &Arc<SchedLog>) {
        if !log.is_empty() {
            self.log = Some(log.clone());
        }
    }

    /// Returns true if the rows do not need to be computed.
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

impl<T: Derive + Saved> Saved for Derived<T> {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        (**self).save(writer)
    }

    /// Reads all rows, so that none are derived.
    fn load(reader: &mut Reader) -> io::Result<Self> {
        Ok(Self {
            rows: T::load(reader)?,
            ..Self::default()
        })
    }
}

impl<T: Derive> Table for Derived<T> {
    fn spec(&self) -> &'static TableSpec {
        self.rows.spec()
    }

    fn rows(&self) -> usize {
        (**self).rows()
    }

    fn column(&self, index: usize) -> Option<ColumnView<'_>> {
        (**self).column(index)
    }

    fn memory(&self) -> usize {
        self.rows.memory() + self.table.get().map_or(0, Table::memory)
    }

    fn max_memory(&self) -> usize {
        match &self.log {
            Some(log) if !self.is_computed() => {
                let rows = T::max_rows(log) + self.rows.rows();
                let packed = self.spec().columns.len() * Packed::overhead(rows);
                self.rows.memory() + self.spec().memory_of(rows) + packed
            }
            _ => self.memory(),
        }
    }
}
