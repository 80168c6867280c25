//! Values that are not kept as one slice.

use std::fmt;
use std::ops::Range;

use super::ColumnKind;

/// Holds columns of numbers, or of what stands for other values.
pub(crate) trait Source: fmt::Debug {
    /// Returns the number of rows.
    fn len(&self) -> usize;
    /// Returns a number. `place` tells the columns of a source apart that has several.
    fn get(&self, place: usize, row: usize) -> i64;
    /// Appends the numbers of some rows to `out`.
    fn read(&self, place: usize, rows: Range<usize>, out: &mut Vec<i64>);
}

/// The values of a column that are not kept as one slice, each as an integer.
///
/// A truth value is 1 or 0, a text the number of its [`StringId`](crate::StringId), and a
/// floating-point number its bits.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a> {
    source: &'a dyn Source,
    place: usize,
    kind: ColumnKind,
}

impl<'a> Numbers<'a> {
    pub(crate) fn new(source: &'a dyn Source, place: usize, kind: ColumnKind) -> Self {
        Self {
            source,
            place,
            kind,
        }
    }

    /// Returns the kind of values that the integers stand for.
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

    /// Returns the integer of a row; 0 if there are not so many.
    pub fn get(&self, row: usize) -> i64 {
        self.source.get(self.place, row)
    }

    /// Appends the integers of some rows to `out`, of those that there are.
    pub fn read(&self, rows: Range<usize>, out: &mut Vec<i64>) {
        self.source.read(self.place, rows, out);
    }
}

impl PartialEq for Numbers<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.len() == other.len()
            && (0..self.len()).all(|row| self.get(row) == other.get(row))
    }
}
