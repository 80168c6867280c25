//! Columns of optional values.

use std::io;

use crate::saved::{Reader, Saved, Writer, check};

use super::{Bitmap, Cell, Column, ColumnView, TableColumn, Values};

/// A column of optional values. It takes no memory for values before the first one.
#[derive(Debug, Clone, Default)]
pub struct NullableColumn<T> {
    /// Empty if no row has a value.
    values: Column<T>,
    /// Empty if no row or every row has a value.
    validity: Bitmap,
    len: usize,
}

impl<T: Cell> NullableColumn<T> {
    /// Returns the value in a row, if it has one.
    #[inline]
    pub fn get(&self, row: u32) -> Option<T> {
        let is_there = (row as usize) < self.values.len();
        let is_valid = self.validity.is_empty() || self.validity.get(row as usize);
        (is_there && is_valid).then(|| self.values.get(row))
    }

    /// Returns an iterator over the values of all rows, which is faster than to get them one by
    /// one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<T>> {
        let mut values = self.values.iter();
        let rows = 0..self.len;
        rows.map(move |row| {
            let value = values.next();
            value.filter(|_| self.validity.is_empty() || self.validity.get(row))
        })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a value to a column with a bitmap, or creates the bitmap.
    #[inline(never)]
    fn push_beside(&mut self, value: Option<T>) {
        if self.validity.is_empty() {
            let have_values = !self.values.is_empty();
            self.validity = Bitmap::of(self.len, have_values);
            self.fill(value.unwrap_or_default());
        }
        self.validity.push(value.is_some());
        let value = value.unwrap_or_else(|| self.values.filler());
        self.values.push(value);
        self.len += 1;
    }

    /// Sets the stored value of all rows without a value.
    fn fill(&mut self, value: T) {
        for _ in self.values.len()..self.len {
            self.values.push(value);
        }
    }

    /// Changes the value in a row, if there is such a row. The column must not be packed.
    pub(crate) fn set(&mut self, row: u32, value: Option<T>) {
        if row as usize >= self.len || (value.is_none() && self.values.is_empty()) {
            return;
        }
        if self.values.is_empty() {
            self.fill(T::default());
            self.validity = Bitmap::of(self.len, false);
        }
        if value.is_none() && self.validity.is_empty() {
            self.validity = Bitmap::of(self.len, true);
        }
        if !self.validity.is_empty() {
            self.validity.set(row as usize, value.is_some());
        }
        self.values.set(row, value.unwrap_or_default());
    }
}

impl<T: Cell> TableColumn for NullableColumn<T> {
    type Value = Option<T>;

    fn packing() -> Self {
        Self {
            values: Column::packing(),
            ..Self::default()
        }
    }

    #[inline]
    fn push(&mut self, value: Option<T>) {
        match value {
            None if self.values.is_empty() => {}
            Some(value) if self.validity.is_empty() && self.values.len() == self.len => {
                self.values.push(value);
            }
            _ => return self.push_beside(value),
        }
        self.len += 1;
    }

    #[inline]
    fn extend(&mut self, mut values: impl ExactSizeIterator<Item = Option<T>> + Clone) {
        if self.validity.is_empty() {
            let count = values.clone().filter(Option::is_some).count();
            if count == 0 && self.values.is_empty() {
                self.len += values.len();
                return;
            }
            let have_none = count < values.len();
            // The bitmap starts with the first row that differs from the others.
            while self.validity.is_empty() && (have_none || self.values.len() < self.len) {
                match values.next() {
                    Some(value) => self.push(value),
                    None => return,
                }
            }
        }
        let filler = self.values.filler();
        self.values
            .extend(values.clone().map(move |value| value.unwrap_or(filler)));
        self.len += values.len();
        while !self.validity.is_empty() && values.len() > 0 {
            let (count, mut bits) = (values.len().min(64), 0);
            for (bit_index, value) in values.by_ref().take(count).enumerate() {
                bits |= u64::from(value.is_some()) << bit_index;
            }
            self.validity.push_bits(bits, count);
        }
    }

    fn pack(&mut self) {
        self.values.pack();
        self.validity.shrink();
    }

    fn view(&self) -> ColumnView<'_> {
        if self.values.is_empty() {
            return ColumnView {
                values: Values::Null(self.len),
                validity: None,
            };
        }
        ColumnView {
            values: self.values.view().values,
            validity: (!self.validity.is_empty()).then_some(&self.validity),
        }
    }

    fn shrink(&mut self) {
        self.values.shrink();
        self.validity.shrink();
    }

    fn memory(&self) -> usize {
        self.values.memory() + self.validity.memory()
    }
}

impl<T: Cell> Saved for NullableColumn<T> {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.len as u64);
        self.values.save(writer)?;
        self.validity.save(writer)
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let column = Self {
            len: reader.small()?,
            values: Saved::load(reader)?,
            validity: Saved::load(reader)?,
        };
        let has_len = |len| len == 0 || len == column.len;
        check(has_len(column.values.len()) && has_len(column.validity.len()))?;
        Ok(column)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;
    use ferretto_testing::Random;

    #[test]
    fn pushing_and_extending_give_the_same_values() {
        let mut random = Random(5);
        let mut next = || random.below(256) as u32;
        for round in 0..300 {
            let (mut one, mut together) = match round % 2 {
                0 => (NullableColumn::<i64>::default(), NullableColumn::default()),
                _ => (NullableColumn::packing(), NullableColumn::packing()),
            };
            for _ in 0..next() % 40 {
                // No row, every row or some rows have a value.
                let kind = next() % 3;
                let values = (0..next() * 7).map(|n| match kind {
                    0 => None,
                    1 => Some(i64::from(n)),
                    _ => (next() % 3 == 0).then_some(i64::from(n)),
                });
                let values: Vec<_> = values.collect();
                values.iter().for_each(|value| one.push(*value));
                together.extend(values.iter().copied());
            }
            assert_eq!(one.len(), together.len());
            assert_eq!(one.values.len(), together.values.len());
            assert_eq!(one.validity.len(), together.validity.len());
            for row in 0..one.len() as u32 {
                assert_eq!(one.get(row), together.get(row), "round {round}");
            }
        }
    }

    #[test]
    fn a_nullable_column_has_the_pushed_values() {
        let mut random = Random(1);
        for _ in 0..200 {
            let (mut column, mut expected) = (NullableColumn::<i64>::default(), Vec::new());
            for row in 0..150_u32 {
                let state = random.next() as u32;
                let value = (state >> 16).is_multiple_of(3).then_some(i64::from(row));
                let value = if state >> 30 == 0 { None } else { value };
                column.push(value);
                expected.push(value);
                if state >> 28 == 3 {
                    let other = row / 2;
                    column.set(other, Some(-1));
                    expected[other as usize] = Some(-1);
                } else if state >> 28 == 5 {
                    column.set(row / 3, None);
                    expected[row as usize / 3] = None;
                }
            }
            let mut packing = NullableColumn::<i64>::packing();
            expected.iter().for_each(|value| packing.push(*value));
            let mut packed = column.clone();
            packing.pack();
            packed.pack();
            for column in [column, packing, packed] {
                let read: Vec<_> = (0..150).map(|row| column.get(row)).collect();
                assert_eq!(read, expected);
                for (row, value) in expected.iter().enumerate() {
                    let seen = value.map_or(Value::Null, Value::Int);
                    assert_eq!(column.view().get(row), seen);
                }
            }
        }
    }
}
