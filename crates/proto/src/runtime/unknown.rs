//! Fields the schema does not have.

use std::fmt;

use ferretto_wire::{DecodeError, Fields, Value, decode_varint};

use super::decode::MAX_DEPTH;

/// Fields of a message that the schema does not have, and those with enumeration values that it
/// does not have: byte for byte as they came, in their order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UnknownFields(Vec<u8>);

impl UnknownFields {
    /// No fields.
    pub const EMPTY: Self = Self(Vec::new());

    /// Keeps encoded fields.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not fields.
    pub fn decode_from_slice(bytes: &[u8]) -> Result<Self, DecodeError> {
        for element in Elements::new(bytes) {
            element?;
        }
        Ok(Self(bytes.to_vec()))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields, encoded.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = UnknownField<'_>> {
        let elements = Elements::new(&self.0).map_while(Result::ok);
        elements.map(|Element { number, value, .. }| UnknownField { number, value })
    }

    /// Keeps one field, tag included.
    pub(super) fn push(&mut self, field: &[u8]) {
        self.0.extend_from_slice(field);
    }

    /// Keeps a number.
    pub(super) fn push_varint(&mut self, number: u32, value: u64) {
        ferretto_wire::Encoder::new(&mut self.0).varint(number, value);
    }
}

impl fmt::Debug for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One of the [`UnknownFields`] of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnknownField<'a> {
    /// The field number.
    pub number: u32,
    /// The value; `None` if it is a group.
    pub value: Option<Value<'a>>,
}

/// A field as it is in its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) number: u32,
    /// `None` if it is a group.
    pub(super) value: Option<Value<'a>>,
    /// The whole field, tag included.
    pub(super) raw: &'a [u8],
}

/// Walks the fields of a message. Other than [`Fields`] it knows groups, which no tracing message
/// has but unknown fields may be.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    /// Walks the bytes from `base`.
    fields: Fields<'a>,
    base: usize,
}

impl<'a> Elements<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let fields = Fields::new(bytes);
        Self {
            bytes,
            fields,
            base: 0,
        }
    }

    /// The group that starts at `start`.
    fn group(&mut self, start: usize) -> Result<Element<'a>, DecodeError> {
        let end = group_end(self.bytes, start, MAX_DEPTH)?;
        self.fields = Fields::new(&self.bytes[end..]);
        self.base = end;
        Ok(Element {
            number: tag_number(self.bytes, start),
            value: None,
            raw: &self.bytes[start..end],
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let start = self.base + self.fields.offset();
        Some(match self.fields.next()? {
            Ok(field) => Ok(Element {
                number: field.number,
                value: Some(field.value),
                raw: &self.bytes[start..self.base + self.fields.offset()],
            }),
            Err(DecodeError::UnsupportedWireType { wire_type: 3, .. }) => self.group(start),
            Err(error) => Err(at(error, self.base)),
        })
    }
}

/// Returns the end of the group that starts at `start`, end tag included.
fn group_end(bytes: &[u8], start: usize, depth: u32) -> Result<usize, DecodeError> {
    let unsupported = |offset, wire_type| DecodeError::UnsupportedWireType { offset, wire_type };
    let depth = depth.checked_sub(1).ok_or(unsupported(start, 3))?;
    let mut base = tag_end(bytes, start);
    let mut fields = Fields::new(&bytes[base..]);
    loop {
        let offset = base + fields.offset();
        match fields.next() {
            None => return Err(DecodeError::Truncated { offset: start }),
            Some(Ok(_)) => {}
            Some(Err(DecodeError::UnsupportedWireType { wire_type: 3, .. })) => {
                base = group_end(bytes, offset, depth)?;
                fields = Fields::new(&bytes[base..]);
            }
            Some(Err(DecodeError::UnsupportedWireType { wire_type: 4, .. }))
                if tag_number(bytes, offset) == tag_number(bytes, start) =>
            {
                return Ok(tag_end(bytes, offset));
            }
            Some(Err(error)) => return Err(at(error, base)),
        }
    }
}

/// The field number in the tag at `start`, which has been decoded before.
fn tag_number(bytes: &[u8], start: usize) -> u32 {
    decode_varint(&bytes[start..]).map_or(0, |(tag, _)| (tag >> 3) as u32)
}

fn tag_end(bytes: &[u8], start: usize) -> usize {
    start + decode_varint(&bytes[start..]).map_or(0, |(_, length)| length)
}

/// The error with its place counted from `base` bytes before.
fn at(error: DecodeError, base: usize) -> DecodeError {
    let offset = base + error.offset();
    match error {
        DecodeError::Truncated { .. } => DecodeError::Truncated { offset },
        DecodeError::VarintTooLong { .. } => DecodeError::VarintTooLong { offset },
        DecodeError::BadFieldNumber { .. } => DecodeError::BadFieldNumber { offset },
        DecodeError::UnsupportedWireType { wire_type, .. } => {
            DecodeError::UnsupportedWireType { offset, wire_type }
        }
        other => other,
    }
}
