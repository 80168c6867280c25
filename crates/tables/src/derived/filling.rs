//! Tables that are filled.

use crate::table::Fill;

/// Rows that a table takes together: a part of a block of packed numbers.
const ROWS: usize = 256;

/// A table and the rows that are on their way into it.
#[derive(Debug)]
pub(super) struct Filling<T: Fill> {
    table: T,
    /// The number of rows that the table has.
    taken: u32,
    rows: Vec<T::Row>,
}

/// A row that may have been taken already.
pub(super) enum Place<'a, T: Fill> {
    OnItsWay(&'a mut T::Row),
    Taken(&'a mut T),
}

impl<T: Fill> Filling<T> {
    pub(super) fn new(table: T) -> Self {
        Self {
            table,
            taken: 0,
            rows: Vec::with_capacity(ROWS),
        }
    }

    /// Appends a row, and returns its number.
    #[inline]
    pub(super) fn push(&mut self, row: T::Row) -> u32 {
        if self.rows.len() == ROWS {
            self.take();
        }
        self.rows.push(row);
        self.taken.saturating_add(self.rows.len() as u32 - 1)
    }

    #[inline(never)]
    fn take(&mut self) {
        self.table.extend(&self.rows);
        self.taken = self.taken.saturating_add(self.rows.len() as u32);
        self.rows.clear();
    }

    /// Returns a row that is to be changed.
    #[inline]
    pub(super) fn place(&mut self, row: u32) -> Place<'_, T> {
        let waiting = row.checked_sub(self.taken);
        match waiting.and_then(|place| self.rows.get_mut(place as usize)) {
            Some(row) => Place::OnItsWay(row),
            None => Place::Taken(&mut self.table),
        }
    }

    /// Returns the table with all rows.
    pub(super) fn finish(mut self) -> T {
        self.take();
        self.table
    }
}
