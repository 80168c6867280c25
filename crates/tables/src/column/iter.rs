//! Reading of all values of a column.

use std::slice;

use super::{Cell, Column};

/// The number of packed integers that are unpacked together: a block of them.
const ROWS: usize = 1024;

/// The values of a column, in order.
#[derive(Debug)]
pub(super) struct Iter<'a, T> {
    column: &'a Column<T>,
    /// The values that are not packed.
    values: slice::Iter<'a, T>,
    /// The next packed row that is not unpacked yet.
    row: usize,
    /// Unpacked integers, from an index on.
    unpacked: Vec<i64>,
    at: usize,
}

impl<'a, T: Cell> Iter<'a, T> {
    pub(super) fn new(column: &'a Column<T>) -> Self {
        Self {
            column,
            values: column.values.iter(),
            row: 0,
            unpacked: Vec::new(),
            at: 0,
        }
    }

    #[inline(never)]
    fn unpack(&mut self) -> Option<T> {
        let packed = self.column.packed.as_ref()?;
        self.unpacked.clear();
        let rows = self.row..self.row + ROWS;
        packed.numbers.read(rows, &mut self.unpacked);
        self.row += self.unpacked.len();
        self.at = 1;
        let first = self.unpacked.first()?;
        Some(T::from_number(*first))
    }
}

impl<T: Cell> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if let Some(number) = self.unpacked.get(self.at) {
            self.at += 1;
            return Some(T::from_number(*number));
        }
        match self.values.next() {
            Some(value) => Some(*value),
            None => self.unpack(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let unpacked = self.unpacked.len().saturating_sub(self.at);
        let packed = self.column.packed.as_ref();
        let packed = packed.map_or(0, |packed| packed.numbers.len() - self.row);
        let left = self.values.len() + unpacked + packed;
        (left, Some(left))
    }
}

impl<T: Cell> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::super::{NullableColumn, TableColumn};
    use super::*;

    #[test]
    fn all_values_are_read_in_order() {
        for len in [0, 1, 3 * ROWS - 1, 3 * ROWS, 3 * ROWS + 1] {
            let value = |row: usize| (row as i64 * 7919) >> (row % 40);
            for mut column in [Column::default(), Column::packing()] {
                (0..len).for_each(|row| column.push(value(row)));
                let expected: Vec<i64> = (0..len).map(value).collect();
                assert_eq!(column.iter().len(), len);
                assert_eq!(column.iter().collect::<Vec<_>>(), expected);
                column.pack();
                assert_eq!(column.iter().skip(2).len(), len.saturating_sub(2));
                assert_eq!(column.iter().collect::<Vec<_>>(), expected);
            }
            // No row has a value, some have, or all.
            for first in [usize::MAX, ROWS + 1, 0] {
                let value = |row: usize| {
                    let has_value = row >= first && (first == 0 || row % 3 == 1);
                    has_value.then(|| value(row))
                };
                let mut column = NullableColumn::packing();
                (0..len).for_each(|row| column.push(value(row)));
                let expected: Vec<Option<i64>> = (0..len).map(value).collect();
                assert_eq!(column.iter().collect::<Vec<_>>(), expected);
                column.pack();
                assert_eq!(column.iter().collect::<Vec<_>>(), expected);
            }
        }
    }
}
