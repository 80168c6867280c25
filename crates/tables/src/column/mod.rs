//! Columns: the values of one kind in all rows of a table.

mod bitmap;
mod numbers;
mod packed;

use std::sync::OnceLock;

pub use self::bitmap::Bitmap;
pub use self::numbers::Numbers;
pub(crate) use self::numbers::Source;
pub(crate) use self::packed::Packed;
use crate::strings::StringId;

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
    /// Values that are not kept as one slice.
    Numbers(Numbers<'a>),
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

/// A type of which values are kept in columns.
pub trait Cell: Copy + Default + PartialEq + std::fmt::Debug {
    /// The kind of column.
    const KIND: ColumnKind;

    /// Returns a view of such values.
    fn values(values: &[Self]) -> Values<'_>;

    /// Returns the integer that stands for a value, as [`Numbers`] have it.
    fn to_number(self) -> i64;

    /// Returns the value that an integer stands for. That of 0 is the default.
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

    /// Returns a column that is packed while it is filled. Its values do not change.
    fn packing() -> Self;
    /// Appends a value.
    fn push(&mut self, value: Self::Value);
    /// Appends values. It takes less time than to append them one by one.
    fn extend(&mut self, values: impl ExactSizeIterator<Item = Self::Value> + Clone);
    /// Packs all values, of which there will be no more.
    fn pack(&mut self);
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
    /// Empty if the values are packed.
    values: Vec<T>,
    packed: Option<Box<PackedColumn<T>>>,
}

#[derive(Debug, Clone)]
struct PackedColumn<T> {
    numbers: Packed,
    /// The same as a slice, for whoever insists on one.
    unpacked: OnceLock<Vec<T>>,
}

impl<T: Cell> PackedColumn<T> {
    fn of(numbers: Packed) -> Option<Box<Self>> {
        let unpacked = OnceLock::new();
        Some(Box::new(Self { numbers, unpacked }))
    }
}

impl<T: Cell> Column<T> {
    /// Returns the value in a row; that of type `T` by default if there is no such row.
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

    /// Returns all values, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        (0..self.len() as u32).map(|row| self.get(row))
    }

    /// Returns all values.
    ///
    /// Those of a table that is [`Derived`](crate::Derived) are packed, and from now on kept
    /// unpacked besides. [`iter`](Self::iter) and [`get`](Self::get) do without.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match &self.packed {
            None => &self.values,
            Some(packed) => packed.unpacked.get_or_init(|| self.iter().collect()),
        }
    }

    /// Changes the value in a row, if there is one. The column is not packed.
    #[inline]
    pub(crate) fn set(&mut self, row: u32, value: T) {
        debug_assert!(self.packed.is_none(), "values of a packed column change");
        if let Some(known) = self.values.get_mut(row as usize) {
            *known = value;
        }
    }

    /// Returns the value for a row that has none: it must not make others take more memory.
    #[inline]
    fn filler(&self) -> T {
        let packed = self.packed.as_ref();
        packed.map_or_else(T::default, |packed| T::from_number(packed.numbers.last()))
    }
}

impl<T: Cell> Keep for Column<T> {
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

/// A column in which rows may have no value. It takes no memory for values before there is one.
#[derive(Debug, Clone, Default)]
pub struct NullableColumn<T> {
    /// Empty while there is no value at all.
    values: Column<T>,
    /// Empty while there is no value at all, or while every row has one.
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

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a value where there is a bitmap, or is one from now on.
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

    /// Gives rows that have no value this one, for what they keep in memory.
    fn fill(&mut self, value: T) {
        for _ in self.values.len()..self.len {
            self.values.push(value);
        }
    }

    /// Changes the value in a row, if there is such a row. The column is not packed.
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

impl<T: Cell> Keep for NullableColumn<T> {
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
            // There is a bitmap from the first row that differs.
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
            for (place, value) in values.by_ref().take(count).enumerate() {
                bits |= u64::from(value.is_some()) << place;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_one_by_one_and_together() {
        let mut state = 5_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 24
        };
        for round in 0..300 {
            let (mut one, mut together) = match round % 2 {
                0 => (NullableColumn::<i64>::default(), NullableColumn::default()),
                _ => (NullableColumn::packing(), NullableColumn::packing()),
            };
            for _ in 0..next() % 40 {
                // None, all, or some have a value.
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

    #[test]
    fn a_packed_column_is_read_like_any_other() {
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
