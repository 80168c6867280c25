//! The cursor in the patch.

use ferretto_wire::{Field, Fields, Value};

use crate::abort::{Reason, Stop};
use crate::account::Account;

/// A number with its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
}

impl Scalar {
    pub(crate) fn value(self) -> u64 {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value,
            Self::Fixed32(value) => value.into(),
        }
    }
}

/// A position in the patch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Bytes(&'a [u8]),
    Scalar(Scalar),
}

impl<'a> From<Value<'a>> for Source<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Varint(value) => Self::Scalar(Scalar::Varint(value)),
            Value::Fixed64(value) => Self::Scalar(Scalar::Fixed64(value)),
            Value::Fixed32(value) => Self::Scalar(Scalar::Fixed32(value)),
            Value::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

/// Returns the fields of a message, up to the first malformed one.
pub(crate) fn fields(message: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields::new(message).map_while(Result::ok)
}

impl<'a> Source<'a> {
    /// Returns the occurrence of a field with this index; an error if there is none.
    pub(crate) fn enter(self, field: u32, index: u32, account: &mut Account) -> Result<Self, Stop> {
        let mut left = index;
        for (seen, found) in (1..).zip(fields(self.message()?)) {
            if found.number != field {
                continue;
            }
            if left == 0 {
                account.step(seen / 4)?;
                return Ok(found.value.into());
            }
            left -= 1;
        }
        // Scanning is fast: a quarter of a step for each field of the shortest kind.
        account.step(self.message()?.len() as u64 / 8)?;
        Err(Stop::Error)
    }

    /// Returns the bytes of a length-delimited value.
    pub(crate) fn message(self) -> Result<&'a [u8], Reason> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Scalar(_) => Err(Reason::NumberForMessage),
        }
    }

    pub(crate) fn scalar(self) -> Result<Scalar, Reason> {
        match self {
            Self::Scalar(scalar) => Ok(scalar),
            Self::Bytes(_) => Err(Reason::NoNumber),
        }
    }
}
