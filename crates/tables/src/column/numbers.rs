//! Values without a slice.

use std::fmt;
use std::ops::Range;

use super::ColumnKind;

/// A source of columns of integers, or of integers that represent other values.
pub(crate) trait Source: fmt::Debug {
    /// Returns the number of rows.
    fn len(&self) -> usize;
    /// Returns the value of a row. `index` selects the column of a source with several.
    fn get(&self, index: usize, row: usize) -> i64;
    /// Appends the values of a range of rows to `out`.
    fn read(&self, index: usize, rows: Range<usize>, out: &mut Vec<i64>);
}

/// The values of a column without a slice, each as an integer.
///
/// A truth value is 1 or 0, a text is the number of its [`StringId`](crate::StringId), and a
/// floating-point number is its bits.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a> {
    source: &'a dyn Source,
    index: usize,
    kind: ColumnKind,
}

impl<'a> Numbers<'a> {
    pub(crate) fn new(source: &'a dyn Source, index: usize, kind: ColumnKind) -> Self {
        Self {
            source,
            index,
            kind,
        }
    }

    /// Returns the kind of values that the integers represent.
    pub fn kind(&self) -> ColumnKind {
        self.kind
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.source.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the integer of a row, or 0 if there is no such row.
    pub fn get(&self, row: usize) -> i64 {
        self.source.get(self.index, row)
    }

    /// Appends the integers of a range of rows to `out`, as far as the rows exist.
    pub fn read(&self, rows: Range<usize>, out: &mut Vec<i64>) {
        self.source.read(self.index, rows, out);
    }
}

impl PartialEq for Numbers<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.len() == other.len()
            && (0..self.len()).all(|row| self.get(row) == other.get(row))
    }
}
