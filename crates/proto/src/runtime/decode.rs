//! Decoding.

use std::mem::size_of;

use ferretto_wire::Value;

use super::error::DecodeError;
use super::field::MessageField;
use super::message::{Codec, Enumeration, Message};
use super::scalar::{Scalar, take_varint};
use super::unknown::{Element, Elements, UnknownFields};

/// The depth to which messages may be nested, the outermost counted.
pub(super) const MAX_DEPTH: u32 = 100;

/// The memory that the structs of messages and strings in a message may take, without their
/// content: two bytes can be a message of some hundred in memory. The content is bounded by the
/// input.
const MAX_ELEMENT_MEMORY: usize = 32 << 20;

/// Adds the encoded fields to the message.
pub(super) fn merge(message: &mut dyn Codec, bytes: &[u8]) -> Result<(), DecodeError> {
    let mut budget = Budget {
        depth: MAX_DEPTH,
        memory: MAX_ELEMENT_MEMORY,
    };
    merge_within(message, bytes, &mut budget)
}

/// The depth and memory that the input may still take.
#[derive(Debug)]
struct Budget {
    depth: u32,
    memory: usize,
}

fn merge_within(
    message: &mut dyn Codec,
    bytes: &[u8],
    budget: &mut Budget,
) -> Result<(), DecodeError> {
    let name = message.name();
    if budget.depth == 0 {
        return Err(DecodeError::TooDeep { message: name });
    }
    budget.depth -= 1;
    for element in Elements::new(bytes) {
        let element = element.map_err(|source| DecodeError::Malformed {
            message: name,
            source,
        })?;
        message.merge_field(Incoming {
            number: element.number,
            element,
            message: name,
            budget,
        })?;
    }
    budget.depth += 1;
    Ok(())
}

/// A field on its way into a message.
#[derive(Debug)]
pub struct Incoming<'a, 'r> {
    /// The field number.
    pub number: u32,
    element: Element<'a>,
    /// The message it goes into.
    message: &'static str,
    budget: &'r mut Budget,
}

impl Incoming<'_, '_> {
    #[cold]
    fn wrong_type(&self) -> DecodeError {
        DecodeError::WrongType {
            message: self.message,
            field: self.number,
        }
    }

    /// Accounts for an element of this size.
    fn take_memory(&mut self, size: usize) -> Result<(), DecodeError> {
        let left = self.budget.memory.checked_sub(size);
        self.budget.memory = left.ok_or(DecodeError::TooManyElements {
            message: self.message,
            field: self.number,
        })?;
        Ok(())
    }

    fn value(&self) -> Result<Value<'_>, DecodeError> {
        self.element.value.ok_or_else(|| self.wrong_type())
    }

    /// A number.
    ///
    /// # Errors
    ///
    /// Here and below: if the field has another wire type.
    pub fn one<S: Scalar>(&self) -> Result<S::Rust, DecodeError> {
        S::read(self.value()?).ok_or_else(|| self.wrong_type())
    }

    /// Adds a number, or an array of them.
    ///
    /// # Errors
    ///
    /// Also if the array ends inside a number.
    pub fn each<S: Scalar>(&self, into: &mut Vec<S::Rust>) -> Result<(), DecodeError> {
        let Value::Bytes(mut array) = self.value()? else {
            into.push(self.one::<S>()?);
            return Ok(());
        };
        while !array.is_empty() {
            into.push(S::take(&mut array).ok_or_else(|| self.wrong_type())?);
        }
        Ok(())
    }

    /// A value of an enumeration. One that the schema does not have is kept in `unknown`.
    ///
    /// # Errors
    ///
    /// Fails if the field has another wire type.
    pub fn known<E: Enumeration>(
        &self,
        unknown: &mut UnknownFields,
    ) -> Result<Option<E>, DecodeError> {
        let Value::Varint(value) = self.value()? else {
            return Err(self.wrong_type());
        };
        let known = E::from_i32(value as i32);
        if known.is_none() {
            unknown.push(self.element.raw);
        }
        Ok(known)
    }

    /// Adds a value of an enumeration, or an array of them. Those that the schema does not have are
    /// kept in `unknown`.
    ///
    /// # Errors
    ///
    /// Also if the array ends inside a number.
    pub fn each_known<E: Enumeration>(
        &self,
        into: &mut Vec<E>,
        unknown: &mut UnknownFields,
    ) -> Result<(), DecodeError> {
        let Value::Bytes(mut array) = self.value()? else {
            into.extend(self.known::<E>(unknown)?);
            return Ok(());
        };
        while !array.is_empty() {
            let value = take_varint(&mut array).ok_or_else(|| self.wrong_type())?;
            match E::from_i32(value as i32) {
                Some(known) => into.push(known),
                None => unknown.push_varint(self.number, value),
            }
        }
        Ok(())
    }

    /// A string or bytes.
    ///
    /// # Errors
    ///
    /// Fails if the field has another wire type.
    pub fn bytes(&self) -> Result<Vec<u8>, DecodeError> {
        match self.value()? {
            Value::Bytes(bytes) => Ok(bytes.to_vec()),
            _ => Err(self.wrong_type()),
        }
    }

    /// Adds a string or bytes.
    ///
    /// # Errors
    ///
    /// Here and below: also if there are too many elements.
    pub fn each_bytes(mut self, into: &mut Vec<Vec<u8>>) -> Result<(), DecodeError> {
        self.take_memory(size_of::<Vec<u8>>())?;
        into.push(self.bytes()?);
        Ok(())
    }

    /// Merges a message.
    ///
    /// # Errors
    ///
    /// Here and below: also if it is nested too deep or malformed itself.
    pub fn message<M: Message>(mut self, into: &mut MessageField<M>) -> Result<(), DecodeError> {
        if !into.is_set() {
            self.take_memory(size_of::<M>())?;
        }
        self.merge_into(into.get_or_insert_default())
    }

    /// Adds a message.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn each_message<M: Message>(mut self, into: &mut Vec<M>) -> Result<(), DecodeError> {
        self.take_memory(size_of::<M>())?;
        into.push(M::EMPTY);
        match into.last_mut() {
            Some(message) => self.merge_into(message),
            None => Ok(()),
        }
    }

    /// Merges a message of a `oneof` with the present value, `there`.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn boxed<M: Message>(mut self, there: Option<Box<M>>) -> Result<Box<M>, DecodeError> {
        let mut message = match there {
            Some(message) => message,
            None => {
                self.take_memory(size_of::<M>())?;
                Box::new(M::EMPTY)
            }
        };
        self.merge_into(&mut *message)?;
        Ok(message)
    }

    fn merge_into(self, message: &mut dyn Codec) -> Result<(), DecodeError> {
        match self.element.value {
            Some(Value::Bytes(bytes)) => merge_within(message, bytes, self.budget),
            _ => Err(self.wrong_type()),
        }
    }

    /// Keeps a field that the schema does not have.
    pub fn keep(&self, into: &mut UnknownFields) {
        into.push(self.element.raw);
    }
}
