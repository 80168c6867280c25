//! Columns: the values of one kind in all rows of a table.

use crate::strings::StringId;

/// One bit a row: 1 if there is a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    fn of(len: usize, bit: bool) -> Self {
        let word = if bit { u64::MAX } else { 0 };
        Self {
            words: vec![word; len.div_ceil(64)],
            len,
        }
    }

    #[inline]
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        self.len += 1;
        self.set(self.len - 1, bit);
    }

    #[inline]
    fn set(&mut self, row: usize, bit: bool) {
        let mask = 1 << (row % 64);
        if let Some(word) = self.words.get_mut(row / 64) {
            *word = if bit { *word | mask } else { *word & !mask };
        }
    }

    /// Returns true if the row has a value.
    #[inline]
    pub fn get(&self, row: usize) -> bool {
        self.words
            .get(row / 64)
            .is_some_and(|word| word >> (row % 64) & 1 != 0)
    }

    /// Returns the bits, row 0 in the lowest one of the first word. Bits beyond the last row mean
    /// nothing.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The kind of values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The number of the row: 0, 1, 2 and so on.
    Id,
    /// True or false; 1 and 0 in SQL.
    Bool,
    /// Unsigned numbers of 32 bits.
    U32,
    /// Signed numbers of 32 bits.
    I32,
    /// Signed numbers of 64 bits.
    I64,
    /// Floating-point numbers.
    F64,
    /// Texts of the [`StringPool`](crate::StringPool). Any of them may be
    /// [`NULL`](StringId::NULL), without a bitmap that says so.
    Text,
}

/// The values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values<'a> {
    /// The numbers of so many rows.
    Id(usize),
    /// NULL in so many rows.
    Null(usize),
    /// See [`ColumnKind::Bool`].
    Bool(&'a [bool]),
    /// See [`ColumnKind::U32`].
    U32(&'a [u32]),
    /// See [`ColumnKind::I32`].
    I32(&'a [i32]),
    /// See [`ColumnKind::I64`].
    I64(&'a [i64]),
    /// See [`ColumnKind::F64`].
    F64(&'a [f64]),
    /// See [`ColumnKind::Text`].
    Text(&'a [StringId]),
}

/// A column of a table as it is read by whoever does not know the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnView<'a> {
    /// One value for each row.
    pub values: Values<'a>,
    /// The rows that have a value. `None` if none of them is NULL, or if they say so themselves.
    pub validity: Option<&'a Bitmap>,
}

/// One value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// An integer, a row number or a truth value.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A text, which is not [`NULL`](StringId::NULL).
    Text(StringId),
}

impl ColumnView<'_> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self.values {
            Values::Id(len) | Values::Null(len) => len,
            Values::Bool(values) => values.len(),
            Values::U32(values) => values.len(),
            Values::I32(values) => values.len(),
            Values::I64(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::Text(values) => values.len(),
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value in a row; NULL if there is no such row.
    pub fn get(&self, row: usize) -> Value {
        if row >= self.len() || self.validity.is_some_and(|valid| !valid.get(row)) {
            return Value::Null;
        }
        match self.values {
            Values::Id(_) => Value::Int(row as i64),
            Values::Null(_) => Value::Null,
            Values::Bool(values) => Value::Int(values[row].into()),
            Values::U32(values) => Value::Int(values[row].into()),
            Values::I32(values) => Value::Int(values[row].into()),
            Values::I64(values) => Value::Int(values[row]),
            Values::F64(values) => Value::Real(values[row]),
            Values::Text(values) => match values[row] {
                StringId::NULL => Value::Null,
                text => Value::Text(text),
            },
        }
    }
}

/// A type of which values are kept in columns.
pub trait Cell: Copy + Default + PartialEq + std::fmt::Debug {
    /// The kind of column.
    const KIND: ColumnKind;

    /// Returns a view of such values.
    fn values(values: &[Self]) -> Values<'_>;
}

macro_rules! cell {
    ($type:ty, $kind:ident) => {
        impl Cell for $type {
            const KIND: ColumnKind = ColumnKind::$kind;

            fn values(values: &[Self]) -> Values<'_> {
                Values::$kind(values)
            }
        }
    };
}

cell!(bool, Bool);
cell!(u32, U32);
cell!(i32, I32);
cell!(i64, I64);
cell!(f64, F64);
cell!(StringId, Text);

/// A value of a row: a [`Cell`] that may be optional.
pub trait Slot: Copy {
    /// The type of the column that keeps such values.
    type Column: Keep<Value = Self>;
    /// The kind of column.
    const KIND: ColumnKind;
    /// True if there may be none.
    const IS_NULLABLE: bool;
}

impl<T: Cell> Slot for T {
    type Column = Column<T>;
    const KIND: ColumnKind = T::KIND;
    const IS_NULLABLE: bool = matches!(T::KIND, ColumnKind::Text);
}

impl<T: Cell> Slot for Option<T> {
    type Column = NullableColumn<T>;
    const KIND: ColumnKind = T::KIND;
    const IS_NULLABLE: bool = true;
}

/// A column as tables use it.
pub trait Keep: Default {
    /// The values it keeps.
    type Value;

    /// Appends a value.
    fn push(&mut self, value: Self::Value);
    /// Returns a view of all values.
    fn view(&self) -> ColumnView<'_>;
    /// Gives back memory that is kept for more values.
    fn shrink(&mut self);
    /// Returns the memory that it takes, in bytes.
    fn memory(&self) -> usize;
}

/// A column in which every row has a value.
#[derive(Debug, Clone, Default)]
pub struct Column<T> {
    values: Vec<T>,
}

impl<T: Cell> Column<T> {
    /// Returns the value in a row; that of type `T` by default if there is no such row.
    #[inline]
    pub fn get(&self, row: u32) -> T {
        self.values.get(row as usize).copied().unwrap_or_default()
    }

    /// Returns all values.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// Changes the value in a row, if there is one.
    #[inline]
    pub(crate) fn set(&mut self, row: u32, value: T) {
        if let Some(known) = self.values.get_mut(row as usize) {
            *known = value;
        }
    }
}

impl<T: Cell> Keep for Column<T> {
    type Value = T;

    #[inline]
    fn push(&mut self, value: T) {
        self.values.push(value);
    }

    fn view(&self) -> ColumnView<'_> {
        ColumnView {
            values: T::values(&self.values),
            validity: None,
        }
    }

    fn shrink(&mut self) {
        self.values.shrink_to_fit();
    }

    fn memory(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }
}

/// A column in which rows may have no value. It takes no memory for values before there is one.
#[derive(Debug, Clone, Default)]
pub struct NullableColumn<T> {
    /// Empty while there is no value at all.
    values: Vec<T>,
    /// Empty while there is no value at all, or while every row has one.
    validity: Bitmap,
    len: usize,
}

impl<T: Cell> NullableColumn<T> {
    /// Returns the value in a row, if it has one.
    #[inline]
    pub fn get(&self, row: u32) -> Option<T> {
        let row = row as usize;
        let value = *self.values.get(row)?;
        (self.validity.is_empty() || self.validity.get(row)).then_some(value)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a value where some rows have one and others have none.
    fn push_mixed(&mut self, value: Option<T>) {
        if self.validity.is_empty() {
            let have_values = !self.values.is_empty();
            self.validity = Bitmap::of(self.len, have_values);
            self.values.resize(self.len, T::default());
        }
        self.validity.push(value.is_some());
        self.values.push(value.unwrap_or_default());
    }

    /// Changes the value in a row, if there is such a row.
    pub(crate) fn set(&mut self, row: u32, value: Option<T>) {
        let row = row as usize;
        if row >= self.len || (value.is_none() && self.values.is_empty()) {
            return;
        }
        if self.values.is_empty() {
            self.values.resize(self.len, T::default());
            self.validity = Bitmap::of(self.len, false);
        }
        if value.is_none() && self.validity.is_empty() {
            self.validity = Bitmap::of(self.len, true);
        }
        if !self.validity.is_empty() {
            self.validity.set(row, value.is_some());
        }
        self.values[row] = value.unwrap_or_default();
    }
}

impl<T: Cell> Keep for NullableColumn<T> {
    type Value = Option<T>;

    #[inline]
    fn push(&mut self, value: Option<T>) {
        match value {
            None if self.values.is_empty() => {}
            Some(value) if self.validity.is_empty() && self.values.len() == self.len => {
                self.values.push(value);
            }
            _ => self.push_mixed(value),
        }
        self.len += 1;
    }

    fn view(&self) -> ColumnView<'_> {
        if self.values.is_empty() {
            return ColumnView {
                values: Values::Null(self.len),
                validity: None,
            };
        }
        ColumnView {
            values: T::values(&self.values),
            validity: (!self.validity.is_empty()).then_some(&self.validity),
        }
    }

    fn shrink(&mut self) {
        self.values.shrink_to_fit();
        self.validity.words.shrink_to_fit();
    }

    fn memory(&self) -> usize {
        self.values.capacity() * size_of::<T>() + 8 * self.validity.words.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nullable_column_holds_what_was_put_in() {
        let mut state = 1_u32;
        for _ in 0..200 {
            let (mut column, mut expected) = (NullableColumn::<i64>::default(), Vec::new());
            for row in 0..150_u32 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
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
            let read: Vec<_> = (0..150).map(|row| column.get(row)).collect();
            assert_eq!(read, expected);
            for (row, value) in expected.iter().enumerate() {
                let seen = value.map_or(Value::Null, Value::Int);
                assert_eq!(column.view().get(row), seen);
            }
        }
    }
}
