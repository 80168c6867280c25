//! The field iterator.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::iter::FusedIterator;

use crate::varint::{decode_varint, zigzag_decode};

/// The largest field number protobuf allows.
const MAX_FIELD_NUMBER: u64 = (1 << 29) - 1;

/// The reason why the bytes are not an encoded message. Offsets count from the start of the decoded
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message ends inside a field.
    Truncated {
        /// The offset of the field.
        offset: usize,
    },
    /// A varint of more than ten bytes.
    VarintTooLong {
        /// The offset of the field.
        offset: usize,
    },
    /// A field number that is zero or above 2^29 − 1.
    BadFieldNumber {
        /// The offset of the field.
        offset: usize,
    },
    /// A group (wire types 3 and 4), which no tracing message uses, or one of the reserved wire
    /// types 6 and 7.
    UnsupportedWireType {
        /// The offset of the field.
        offset: usize,
        /// The wire type found, 3, 4, 6 or 7.
        wire_type: u8,
    },
}

impl DecodeError {
    /// Returns the offset of the offending field.
    pub fn offset(&self) -> usize {
        match *self {
            Self::Truncated { offset }
            | Self::VarintTooLong { offset }
            | Self::BadFieldNumber { offset }
            | Self::UnsupportedWireType { offset, .. } => offset,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset } => {
                write!(f, "the message ends inside the field at byte {offset}")
            }
            Self::VarintTooLong { offset } => {
                write!(
                    f,
                    "varint longer than ten bytes in the field at byte {offset}"
                )
            }
            Self::BadFieldNumber { offset } => write!(f, "invalid field number at byte {offset}"),
            Self::UnsupportedWireType { offset, wire_type } => {
                write!(
                    f,
                    "unsupported wire type {wire_type} in the field at byte {offset}"
                )
            }
        }
    }
}

impl Error for DecodeError {}

/// The value of one field, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Wire type 0: integers, booleans and enumerations.
    Varint(u64),
    /// Wire type 1: `fixed64`, `sfixed64`, `double`.
    Fixed64(u64),
    /// Wire type 5: `fixed32`, `sfixed32`, `float`.
    Fixed32(u32),
    /// Wire type 2: strings, bytes, nested messages and packed arrays.
    Bytes(&'a [u8]),
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// The field number, 1 to 2^29 − 1.
    pub number: u32,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Field<'a> {
    /// Returns the value as an unsigned integer; `None` if it is a byte string.
    #[inline]
    pub fn as_u64(&self) -> Option<u64> {
        match self.value {
            Value::Varint(value) | Value::Fixed64(value) => Some(value),
            Value::Fixed32(value) => Some(value.into()),
            Value::Bytes(_) => None,
        }
    }

    /// Returns the value as an unsigned 32-bit integer. As in protobuf, the upper half of a larger
    /// number is dropped.
    #[inline]
    pub fn as_u32(&self) -> Option<u32> {
        self.as_u64().map(|value| value as u32)
    }

    /// Returns the value as a signed integer (`int32`, `int64`, `sfixed32`, `sfixed64`); `None` if
    /// it is a byte string.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match self.value {
            Value::Varint(value) | Value::Fixed64(value) => Some(value as i64),
            Value::Fixed32(value) => Some((value as i32).into()),
            Value::Bytes(_) => None,
        }
    }

    /// Returns the value as a zigzag-coded integer (`sint32`, `sint64`); `None` unless it is a
    /// varint.
    #[inline]
    pub fn as_sint(&self) -> Option<i64> {
        match self.value {
            Value::Varint(value) => Some(zigzag_decode(value)),
            _ => None,
        }
    }

    /// Returns the value as a boolean; `None` if it is a byte string.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        self.as_u64().map(|value| value != 0)
    }

    /// Returns the value as a floating-point number (`float`, `double`); `None` unless it is of
    /// fixed width.
    #[inline]
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            Value::Fixed64(value) => Some(f64::from_bits(value)),
            Value::Fixed32(value) => Some(f32::from_bits(value).into()),
            _ => None,
        }
    }

    /// Returns the value as bytes: a string, a nested message or a packed array; `None` if it is a
    /// number.
    #[inline]
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value as text, with U+FFFD in place of invalid UTF-8; `None` if it is a number.
    #[inline]
    pub fn as_str_lossy(&self) -> Option<Cow<'a, str>> {
        self.as_bytes().map(String::from_utf8_lossy)
    }

    /// Returns the fields of a nested message; `None` if the value is a number.
    #[inline]
    pub fn as_message(&self) -> Option<Fields<'a>> {
        self.as_bytes().map(Fields::new)
    }

    /// Returns the elements of a repeated varint field, whether this occurrence is packed or a
    /// single element.
    #[inline]
    pub fn as_varints(&self) -> Varints<'a> {
        match self.value {
            Value::Bytes(bytes) => Varints {
                single: None,
                bytes,
            },
            Value::Varint(value) => Varints {
                single: Some(value),
                bytes: &[],
            },
            _ => Varints {
                single: None,
                bytes: &[],
            },
        }
    }
}

/// Iterates over the fields of an encoded message, in the order in which they are encoded.
///
/// After an error the iterator is exhausted.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Fields<'a> {
    /// Creates an iterator over `bytes`, the encoding of one message without a length prefix.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            length: bytes.len(),
        }
    }

    /// Returns the number of bytes read so far: the offset of the next field.
    ///
    /// Read it before and after `next` to get the range of one field with its tag.
    #[inline]
    pub fn offset(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Calls `each` with each field of a message, up to the first malformed one. Returns true if
    /// there is none.
    ///
    /// It is always inlined, for the few loops that read most of a trace.
    #[inline(always)]
    pub fn walk(bytes: &'a [u8], mut each: impl FnMut(Field<'a>)) -> bool {
        Self::walk_while(bytes, |field| {
            each(field);
            true
        })
    }

    /// Calls `each` with each field of a message until it returns false, or up to the first
    /// malformed field.
    #[inline(always)]
    pub fn walk_while(bytes: &'a [u8], mut each: impl FnMut(Field<'a>) -> bool) -> bool {
        let mut fields = Self::new(bytes);
        while !fields.rest.is_empty() {
            let field = match fields.usual_field() {
                Some(field) => field,
                None => match fields.field() {
                    Ok(field) => field,
                    Err(_) => return false,
                },
            };
            if !each(field) {
                break;
            }
        }
        true
    }

    /// Returns the first field with this number; `None` if there is none or an error comes first.
    pub fn find(number: u32, bytes: &'a [u8]) -> Option<Field<'a>> {
        Self::new(bytes)
            .map_while(Result::ok)
            .find(|field| field.number == number)
    }

    /// Reads a field whose tag has at most two bytes; `None` for any other field.
    #[inline(always)]
    fn usual_field(&mut self) -> Option<Field<'a>> {
        let (tag, rest) = match *self.rest {
            [low, ref rest @ ..] if low < 0x80 => (u32::from(low), rest),
            [low, high, ref rest @ ..] if high < 0x80 => {
                (u32::from(low & 0x7f) | u32::from(high) << 7, rest)
            }
            _ => return None,
        };
        let number = tag >> 3;
        if number == 0 {
            return None;
        }
        let (value, rest) = match tag & 7 {
            0 => {
                let (value, length) = decode_varint(rest)?;
                (Value::Varint(value), rest.get(length..)?)
            }
            2 => {
                let (length, digits) = decode_varint(rest)?;
                let length = usize::try_from(length).ok()?;
                let (bytes, rest) = rest.get(digits..)?.split_at_checked(length)?;
                (Value::Bytes(bytes), rest)
            }
            1 => {
                let (value, rest) = rest.split_first_chunk()?;
                (Value::Fixed64(u64::from_le_bytes(*value)), rest)
            }
            5 => {
                let (value, rest) = rest.split_first_chunk()?;
                (Value::Fixed32(u32::from_le_bytes(*value)), rest)
            }
            _ => return None,
        };
        self.rest = rest;
        Some(Field { number, value })
    }

    fn varint(&mut self, field_start: usize) -> Result<u64, DecodeError> {
        match decode_varint(self.rest) {
            Some((value, length)) => {
                self.rest = &self.rest[length..];
                Ok(value)
            }
            None if self.rest.len() >= crate::varint::MAX_VARINT_LENGTH => {
                Err(DecodeError::VarintTooLong {
                    offset: field_start,
                })
            }
            None => Err(DecodeError::Truncated {
                offset: field_start,
            }),
        }
    }

    fn take(&mut self, length: u64, field_start: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length))
            .ok_or(DecodeError::Truncated {
                offset: field_start,
            })?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads any field, or returns its error.
    #[inline(never)]
    fn field(&mut self) -> Result<Field<'a>, DecodeError> {
        let start = self.offset();
        let tag = self.varint(start)?;
        let number = tag >> 3;
        if number == 0 || number > MAX_FIELD_NUMBER {
            return Err(DecodeError::BadFieldNumber { offset: start });
        }
        let value = match (tag & 7) as u8 {
            0 => Value::Varint(self.varint(start)?),
            1 => Value::Fixed64(u64::from_le_bytes(array(self.take(8, start)?))),
            2 => {
                let length = self.varint(start)?;
                Value::Bytes(self.take(length, start)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(array(self.take(4, start)?))),
            wire_type => {
                return Err(DecodeError::UnsupportedWireType {
                    offset: start,
                    wire_type,
                });
            }
        };
        Ok(Field {
            number: number as u32,
            value,
        })
    }
}

/// Returns the bytes as an array. Callers make sure that the slice is long enough; missing bytes
/// are zeros.
#[inline]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(field) = self.usual_field() {
            return Some(Ok(field));
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl FusedIterator for Fields<'_> {}

/// The elements of a repeated varint field; ends early at a malformed element.
#[derive(Clone, Debug)]
pub struct Varints<'a> {
    single: Option<u64>,
    bytes: &'a [u8],
}

impl Iterator for Varints<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if let Some(value) = self.single.take() {
            return Some(value);
        }
        match decode_varint(self.bytes) {
            Some((value, length)) => {
                self.bytes = &self.bytes[length..];
                Some(value)
            }
            None => {
                self.bytes = &[];
                None
            }
        }
    }
}

impl FusedIterator for Varints<'_> {}
