//! Columns: the values of one kind for all rows of a table.

mod bitmap;
mod iter;
mod nullable;
mod numbers;
mod packed;

use std::io;
use std::sync::OnceLock;

pub use self::bitmap::Bitmap;
use self::iter::Iter;
pub use self::nullable::NullableColumn;
pub use self::numbers::Numbers;
pub(crate) use self::numbers::Source;
pub(crate) use self::packed::Packed;
use crate::saved::{Reader, Saved, Writer};
use crate::strings::StringId;

/// The kind of values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The number of the row: 0, 1, 2 and so on.
    Id,
    /// True or false; 1 and 0 in SQL.
    Bool,
    /// Unsigned 32-bit integers.
    U32,
    /// Signed 32-bit integers.
    I32,
    /// Signed 64-bit integers.
    I64,
    /// Floating-point numbers.
    F64,
    /// Texts of the [`StringPool`](crate::StringPool). A value may be [`NULL`](StringId::NULL);
    /// there is no bitmap for that.
    Text,
}

/// The values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values<'a> {
    /// The numbers of this many rows.
    Id(usize),
    /// NULL in this many rows.
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
    /// Values without a slice.
    Numbers(Numbers<'a>),
}

/// A column of any table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnView<'a> {
    /// One value for each row.
    pub values: Values<'a>,
    /// The rows that have a value. `None` if no row is NULL, or if the values themselves may be
    /// NULL.
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
    /// A text other than [`NULL`](StringId::NULL).
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
            Values::Numbers(numbers) => numbers.len(),
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
        let text = |text| match text {
            StringId::NULL => Value::Null,
            text => Value::Text(text),
        };
        match self.values {
            Values::Id(_) => Value::Int(row as i64),
            Values::Null(_) => Value::Null,
            Values::Bool(values) => Value::Int(values[row].into()),
            Values::U32(values) => Value::Int(values[row].into()),
            Values::I32(values) => Value::Int(values[row].into()),
            Values::I64(values) => Value::Int(values[row]),
            Values::F64(values) => Value::Real(values[row]),
            Values::Text(values) => text(values[row]),
            Values::Numbers(numbers) => match numbers.kind() {
                ColumnKind::F64 => Value::Real(f64::from_number(numbers.get(row))),
                ColumnKind::Text => text(StringId::from_number(numbers.get(row))),
                _ => Value::Int(numbers.get(row)),
            },
        }
    }
}

/// A type of values in columns.
pub trait Cell: Copy + Default + PartialEq + std::fmt::Debug {
    /// The kind of column.
    const KIND: ColumnKind;

    /// Returns a view of values.
    fn values(values: &[Self]) -> Values<'_>;

    /// Returns the integer that represents a value in [`Numbers`].
    fn to_number(self) -> i64;

    /// Returns the value that an integer represents. That of 0 is the default.
    fn from_number(number: i64) -> Self;
}

macro_rules! cell {
    ($type:ty, $kind:ident, $to:expr, $from:expr) => {
        impl Cell for $type {
            const KIND: ColumnKind = ColumnKind::$kind;

            fn values(values: &[Self]) -> Values<'_> {
                Values::$kind(values)
            }

            #[inline]
            fn to_number(self) -> i64 {
                let to: fn(Self) -> i64 = $to;
                to(self)
            }

            #[inline]
            fn from_number(number: i64) -> Self {
                let from: fn(i64) -> Self = $from;
                from(number)
            }
        }
    };
}

cell!(bool, Bool, |value| value.into(), |number| number != 0);
cell!(u32, U32, |value| value.into(), |number| number as Self);
cell!(i32, I32, |value| value.into(), |number| number as Self);
cell!(i64, I64, |value| value, |number| number);
cell!(f64, F64, |value| value.to_bits() as i64, |number| {
    Self::from_bits(number as u64)
});
cell!(StringId, Text, |text| text.raw().into(), |number| Self(
    number as u32
));

/// A value of a row: a [`Cell`], or an optional one.
pub trait Slot: Copy {
    /// The type of the column of such values.
    type Column: TableColumn<Value = Self>;
    /// The kind of column.
    const KIND: ColumnKind;
    /// True if the value is optional.
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

/// A column of a table.
pub trait TableColumn: Default {
    /// The type of the values.
    type Value;

    /// Returns a column that is packed while it is filled. Its values must not change.
    fn packing() -> Self;
    /// Appends a value.
    fn push(&mut self, value: Self::Value);
    /// Appends values, which is faster than to append them one by one.
    fn extend(&mut self, values: impl ExactSizeIterator<Item = Self::Value> + Clone);
    /// Packs all values. No more may follow.
    fn pack(&mut self);
    /// Returns a view of all values.
    fn view(&self) -> ColumnView<'_>;
    /// Frees unused capacity.
    fn shrink(&mut self);
    /// Returns the memory in bytes.
    fn memory(&self) -> usize;
}

/// A column in which every row has a value.
#[derive(Debug, Clone, Default)]
pub struct Column<T> {
    /// Empty if the values are packed.
    values: Vec<T>,
    packed: Option<Box<PackedColumn<T>>>,
}

#[derive(Debug, Clone)]
struct PackedColumn<T> {
    numbers: Packed,
    /// The unpacked values, computed when a slice is requested.
    unpacked: OnceLock<Vec<T>>,
}

impl<T: Cell> PackedColumn<T> {
    fn of(numbers: Packed) -> Option<Box<Self>> {
        let unpacked = OnceLock::new();
        Some(Box::new(Self { numbers, unpacked }))
    }
}

impl<T: Cell> Column<T> {
    /// Returns the value in a row, or the default if there is no such row.
    #[inline]
    pub fn get(&self, row: u32) -> T {
        match (self.values.get(row as usize), &self.packed) {
            (Some(value), _) => *value,
            (None, None) => T::default(),
            (None, Some(packed)) => T::from_number(packed.numbers.get(row as usize)),
        }
    }

    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.packed {
            None => self.values.len(),
            Some(packed) => packed.numbers.len(),
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over all values, which is faster than to get them one by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> {
        Iter::new(self)
    }

    /// Returns all values as a slice.
    ///
    /// The values of a [`Derived`](crate::Derived) table are packed. This call unpacks them, and
    /// keeps both forms from then on. [`iter`](Self::iter) and [`get`](Self::get) do not unpack
    /// them.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match &self.packed {
            None => &self.values,
            Some(packed) => packed.unpacked.get_or_init(|| self.iter().collect()),
        }
    }

    /// Changes the value in a row, if there is such a row.
    #[inline]
    pub(crate) fn set(&mut self, row: u32, value: T) {
        if let Some(known) = self.values.get_mut(row as usize) {
            *known = value;
        } else if let Some(packed) = &mut self.packed {
            packed.numbers.set(row as usize, value.to_number());
        }
    }

    /// Returns a column that is packed while it is filled, and in which rows with the value
    /// `unknown` are changed later.
    pub(crate) fn late(unknown: T) -> Self {
        Self {
            values: Vec::new(),
            packed: PackedColumn::of(Packed::late(unknown.to_number())),
        }
    }

    /// Returns the value for rows without one. It must not increase the memory of other values.
    #[inline]
    fn filler(&self) -> T {
        let packed = self.packed.as_ref();
        packed.map_or_else(T::default, |packed| T::from_number(packed.numbers.last()))
    }
}

impl<T: Cell> TableColumn for Column<T> {
    type Value = T;

    fn packing() -> Self {
        Self {
            values: Vec::new(),
            packed: PackedColumn::of(Packed::default()),
        }
    }

    #[inline]
    fn push(&mut self, value: T) {
        match &mut self.packed {
            None => self.values.push(value),
            Some(packed) => packed.numbers.push(value.to_number()),
        }
    }

    #[inline]
    fn extend(&mut self, values: impl ExactSizeIterator<Item = T> + Clone) {
        match &mut self.packed {
            None => self.values.extend(values),
            Some(packed) => packed.numbers.extend(values.map(T::to_number)),
        }
    }

    fn pack(&mut self) {
        match &mut self.packed {
            Some(packed) => packed.numbers.shrink(),
            None => {
                let values = std::mem::take(&mut self.values);
                let numbers = values.iter().map(|value| value.to_number());
                self.packed = PackedColumn::of(numbers.collect());
            }
        }
    }

    fn view(&self) -> ColumnView<'_> {
        let values = match &self.packed {
            None => T::values(&self.values),
            Some(packed) => Values::Numbers(Numbers::new(&packed.numbers, 0, T::KIND)),
        };
        ColumnView {
            values,
            validity: None,
        }
    }

    fn shrink(&mut self) {
        self.values.shrink_to_fit();
    }

    fn memory(&self) -> usize {
        let values = |values: &Vec<T>| values.capacity() * size_of::<T>();
        let packed = self.packed.as_ref().map_or(0, |packed| {
            packed.numbers.memory() + packed.unpacked.get().map_or(0, values)
        });
        values(&self.values) + packed
    }
}

impl<T: Cell> Saved for Column<T> {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        match &self.packed {
            Some(packed) => packed.numbers.save(writer),
            None => Packed::save_all(writer, self.values.iter().map(|value| value.to_number())),
        }
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        Ok(Self {
            values: Vec::new(),
            packed: PackedColumn::of(Packed::load(reader)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_unpacked_columns_have_the_same_values() {
        let reals = [0.5, -0.0, f64::MAX];
        let mut column = Column::packing();
        reals.iter().for_each(|value| column.push(*value));
        column.pack();
        assert_eq!(column.view().get(1), Value::Real(-0.0));
        assert_eq!((column.get(2), column.get(3)), (f64::MAX, 0.0));
        assert_eq!(column.as_slice(), reals);
        let mut texts = Column::packing();
        texts.push(StringId::NULL);
        texts.push(StringId::EMPTY);
        let view = texts.view();
        assert_eq!(
            [0, 1, 2].map(|row| view.get(row)),
            [Value::Null, Value::Text(StringId::EMPTY), Value::Null]
        );
    }
}
