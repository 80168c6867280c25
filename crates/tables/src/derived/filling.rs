//! Tables under construction.

use crate::schema::{
    FtraceEventRow, FtraceEventTable, SchedSliceRow, SchedSliceTable, ThreadStateRow,
    ThreadStateTable,
};

/// The number of rows that are appended together: a part of a block of packed integers.
const ROWS: usize = 256;

/// A table to which many rows are appended.
pub(super) trait Fill {
    /// The type of rows.
    type Row: Copy;

    /// Appends rows, which is faster than to append them one by one.
    fn extend(&mut self, rows: &[Self::Row]);
}

macro_rules! fill {
    ($($table:ident, $row:ident;)+) => {$(
        impl Fill for $table {
            type Row = $row;

            fn extend(&mut self, rows: &[$row]) {
                self.extend(rows);
            }
        }
    )+};
}

fill! {
    FtraceEventTable, FtraceEventRow;
    SchedSliceTable, SchedSliceRow;
    ThreadStateTable, ThreadStateRow;
}

/// A table, and rows that are not appended yet.
#[derive(Debug)]
pub(super) struct Filling<T: Fill> {
    table: T,
    /// The number of rows in the table.
    appended: u32,
    rows: Vec<T::Row>,
}

/// A row of the table, or one that is not appended yet.
pub(super) enum RowToChange<'a, T: Fill> {
    Pending(&'a mut T::Row),
    Appended(&'a mut T),
}

impl<T: Fill> Filling<T> {
    pub(super) fn new(table: T) -> Self {
        Self {
            table,
            appended: 0,
            rows: Vec::with_capacity(ROWS),
        }
    }

    /// Appends a row, and returns its index.
    #[inline]
    pub(super) fn push(&mut self, row: T::Row) -> u32 {
        if self.rows.len() == ROWS {
            self.append();
        }
        self.rows.push(row);
        self.appended.saturating_add(self.rows.len() as u32 - 1)
    }

    #[inline(never)]
    fn append(&mut self) {
        self.table.extend(&self.rows);
        self.appended = self.appended.saturating_add(self.rows.len() as u32);
        self.rows.clear();
    }

    /// Returns a row to change.
    #[inline]
    pub(super) fn row_mut(&mut self, row: u32) -> RowToChange<'_, T> {
        let waiting = row.checked_sub(self.appended);
        match waiting.and_then(|index| self.rows.get_mut(index as usize)) {
            Some(row) => RowToChange::Pending(row),
            None => RowToChange::Appended(&mut self.table),
        }
    }

    /// Returns the table with all rows.
    pub(super) fn finish(mut self) -> T {
        self.append();
        self.table
    }
}
