//! The traits of messages and enumerations.

use std::fmt::Debug;

use super::decode::{self, Incoming};
use super::encode::{self, Output};
use super::error::DecodeError;

/// The part of a message that the generator writes; behind `dyn`, so that the code around it exists
/// once.
pub trait Codec: Send + Sync {
    /// The name in the schema, without the package.
    fn name(&self) -> &'static str;

    /// Takes in one field.
    ///
    /// # Errors
    ///
    /// Fails if the field does not match the schema.
    fn merge_field(&mut self, field: Incoming<'_, '_>) -> Result<(), DecodeError>;

    /// Writes the fields that are set, by their numbers, a `oneof` at the lowest of its numbers,
    /// and behind them the unknown ones as they came.
    fn encode_fields(&self, out: &mut Output<'_>);
}

/// A message of the schema.
///
/// Fields are public. Absent is `None`, an empty vector or an unset
/// [`MessageField`](super::MessageField).
pub trait Message: Codec + Clone + Debug + Default + PartialEq + 'static {
    /// The message without any fields.
    const EMPTY: Self;

    /// [`EMPTY`](Self::EMPTY) at a fixed address, for references to absent messages.
    fn empty() -> &'static Self;

    /// Decodes a message.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not fields, if a field has another wire type than the schema says, or
    /// if messages are nested too deep or too many; the error names the message.
    fn decode_from_slice(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut message = Self::EMPTY;
        decode::merge(&mut message, bytes)?;
        Ok(message)
    }

    /// Adds encoded fields: numbers, strings and enumerations replace the present values, repeated
    /// fields grow, messages are merged.
    ///
    /// # Errors
    ///
    /// As [`decode_from_slice`](Self::decode_from_slice); the fields before the malformed one have
    /// been added then.
    fn merge_from_slice(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        decode::merge(self, bytes)
    }

    /// The encoded message.
    fn encode_to_vec(&self) -> Vec<u8> {
        encode::encode_to_vec(self)
    }

    /// Appends the encoded message.
    fn encode(&self, out: &mut Vec<u8>) {
        encode::encode(self, out);
    }

    /// The size of the encoded message in bytes; `u32::MAX` if it is more than that.
    fn encoded_len(&self) -> u32 {
        u32::try_from(encode::encoded_len(self)).unwrap_or(u32::MAX)
    }
}

/// An enumeration of the schema.
///
/// Values the schema does not have are kept among the unknown fields of the message.
pub trait Enumeration: Copy + Debug + Default + PartialEq + 'static {
    /// The value with this number; `None` if the schema has none.
    fn from_i32(number: i32) -> Option<Self>;

    /// The number of the value.
    fn to_i32(self) -> i32;
}
