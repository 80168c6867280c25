//! Elements of the generated views of messages: fields read by type, and repeated fields.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use ferretto_wire::{Field, Fields, decode_varint};

/// Calls `each` with each field of a message and its extent, up to the first malformed field.
/// Returns true if there is none.
#[inline(always)]
pub(crate) fn walk<'a>(bytes: &'a [u8], mut each: impl FnMut(Field<'a>, (usize, usize))) -> bool {
    let mut fields = Fields::new(bytes);
    loop {
        let start = fields.offset();
        match fields.next() {
            Some(Ok(field)) => each(field, (start, fields.offset())),
            Some(Err(_)) => return false,
            None => return true,
        }
    }
}

#[inline]
pub(crate) fn uint64(field: &Field<'_>) -> Option<u64> {
    field.as_u64()
}

#[inline]
pub(crate) fn int64(field: &Field<'_>) -> Option<i64> {
    field.as_i64()
}

#[inline]
pub(crate) fn uint32(field: &Field<'_>) -> Option<u32> {
    field.as_u32()
}

#[inline]
pub(crate) fn int32(field: &Field<'_>) -> Option<i32> {
    field.as_i64().map(|number| number as i32)
}

#[inline]
pub(crate) fn boolean(field: &Field<'_>) -> Option<bool> {
    field.as_bool()
}

#[inline]
pub(crate) fn float(field: &Field<'_>) -> Option<f64> {
    field.as_f64()
}

#[inline]
pub(crate) fn bytes<'a>(field: &Field<'a>) -> Option<&'a [u8]> {
    field.as_bytes()
}

/// The elements of a repeated field, in the order in which they are encoded. They are decoded when
/// they are iterated over, whether they are packed or not.
#[derive(Clone, Copy)]
pub struct Repeated<'a, T> {
    /// The part of the message from the first to the last field with the number.
    fields: &'a [u8],
    /// The offset of this part in the message.
    start: usize,
    number: u32,
    /// The number of fields with the number.
    count: u32,
    elements: PhantomData<T>,
}

impl<T> Default for Repeated<'_, T> {
    #[inline]
    fn default() -> Self {
        Self {
            fields: &[],
            start: 0,
            number: 0,
            count: 0,
            elements: PhantomData,
        }
    }
}

impl<'a, T> Repeated<'a, T> {
    /// Adds a field of a message with its extent.
    #[inline]
    pub(crate) fn add(&mut self, message: &'a [u8], (start, end): (usize, usize), number: u32) {
        if self.count == 0 {
            (self.start, self.number) = (start, number);
        }
        self.count = self.count.saturating_add(1);
        self.fields = message.get(self.start..end).unwrap_or_default();
    }

    /// Returns true if there are no elements, or only those of empty packed arrays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the encoded fields with the number: one for each element, or packed arrays.
    #[inline]
    fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a, T> {
        let number = self.number;
        let fields = Fields::new(self.fields).map_while(Result::ok);
        fields.filter(move |field| field.number == number)
    }
}

impl<'a, T: Element<'a>> Repeated<'a, T> {
    /// Returns the elements.
    #[inline]
    pub fn iter(&self) -> Elements<'a, T> {
        Elements {
            fields: Fields::new(self.fields),
            number: self.number,
            packed: &[],
            elements: PhantomData,
        }
    }
}

impl<'a> Repeated<'a, &'a [u8]> {
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }
}

impl<'a, T: Number> Repeated<'a, T> {
    /// Returns the encoded elements of the last packed array; empty if there is none.
    #[inline]
    pub fn packed(&self) -> &'a [u8] {
        let packed = self.fields().filter_map(|field| field.as_bytes());
        packed.last().unwrap_or_default()
    }
}

impl<'a, T: Element<'a>> IntoIterator for Repeated<'a, T> {
    type Item = T;
    type IntoIter = Elements<'a, T>;

    #[inline]
    fn into_iter(self) -> Elements<'a, T> {
        self.iter()
    }
}

impl<'a, T: Element<'a> + fmt::Debug> fmt::Debug for Repeated<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over the elements of a [`Repeated`] field. It ends early at a malformed packed array.
#[derive(Clone, Debug)]
pub struct Elements<'a, T> {
    fields: Fields<'a>,
    number: u32,
    /// The rest of the current packed array.
    packed: &'a [u8],
    elements: PhantomData<T>,
}

impl<'a, T: Element<'a>> Iterator for Elements<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        loop {
            if !self.packed.is_empty() {
                match T::next_packed(&mut self.packed) {
                    Some(element) => return Some(element),
                    None => self.packed = &[],
                }
            }
            let field = self.fields.next()?.ok()?;
            if field.number != self.number {
                continue;
            }
            match T::of_field(&field) {
                Some(element) => return Some(element),
                None => self.packed = field.as_bytes().unwrap_or_default(),
            }
        }
    }
}

impl<'a, T: Element<'a>> FusedIterator for Elements<'a, T> {}

/// A type of elements of repeated fields.
pub trait Element<'a>: Sized {
    /// Returns the element that a field contains; `None` for a packed array, or for a field of
    /// another type.
    fn of_field(field: &Field<'a>) -> Option<Self>;

    /// Removes an element from the start of a packed array; `None` if it is malformed.
    fn next_packed(packed: &mut &'a [u8]) -> Option<Self>;
}

impl<'a> Element<'a> for &'a [u8] {
    #[inline]
    fn of_field(field: &Field<'a>) -> Option<Self> {
        field.as_bytes()
    }

    #[inline]
    fn next_packed(_: &mut &'a [u8]) -> Option<Self> {
        None
    }
}

/// A numeric type of elements, which may be packed.
pub trait Number: for<'a> Element<'a> {}

macro_rules! varints {
    ($($type:ty),*) => {$(
        impl Number for $type {}

        impl<'a> Element<'a> for $type {
            #[inline]
            fn of_field(field: &Field<'a>) -> Option<Self> {
                field.as_u64().map(|number| number as Self)
            }

            #[inline]
            fn next_packed(packed: &mut &'a [u8]) -> Option<Self> {
                let (number, length) = decode_varint(packed)?;
                *packed = packed.get(length..).unwrap_or_default();
                Some(number as Self)
            }
        }
    )*};
}

varints!(u32, u64, i32, i64);
