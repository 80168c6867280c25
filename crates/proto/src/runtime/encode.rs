//! Encoding.

use ferretto_wire::{Encoder, Mark, Sink, encode_varint, varint_length};

use super::field::MessageField;
use super::message::{Codec, Enumeration, Message};
use super::scalar::{Int32, Scalar};
use super::unknown::UnknownFields;

pub(super) fn encode(message: &dyn Codec, out: &mut Vec<u8>) {
    message.encode_fields(&mut Output {
        bytes: Some(out),
        length: 0,
    });
}

pub(super) fn encode_to_vec(message: &dyn Codec) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(encoded_len(message));
    encode(message, &mut bytes);
    bytes
}

pub(super) fn encoded_len(message: &dyn Codec) -> usize {
    let mut out = Output {
        bytes: None,
        length: 0,
    };
    message.encode_fields(&mut out);
    out.length
}

/// The output that a message is written to; or nowhere, to know its length.
#[derive(Debug)]
pub struct Output<'a> {
    bytes: Option<&'a mut Vec<u8>>,
    length: usize,
}

/// Nested messages get a length as short as possible: their bodies move if it takes more than a
/// byte.
impl Sink for Output<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        if let Some(out) = &mut self.bytes {
            out.extend_from_slice(bytes);
        }
    }

    #[inline]
    fn write_short(&mut self, bytes: &[u8; 16], length: usize) {
        self.length += length;
        if let Some(out) = &mut self.bytes {
            out.extend_from_slice(&bytes[..length.min(16)]);
        }
    }

    fn position(&self) -> u64 {
        self.length as u64
    }

    fn open(&mut self) -> Mark {
        let slot = self.length;
        self.write(&[0]);
        Mark {
            start: self.position(),
            slot,
        }
    }

    fn close(&mut self, mark: Mark) {
        let body = self.length - mark.slot - 1;
        let width = varint_length(body as u64);
        self.length += width - 1;
        if let Some(out) = &mut self.bytes {
            let end = out.len();
            let start = end - body;
            if width > 1 {
                out.resize(end + width - 1, 0);
                out.copy_within(start..end, start + width - 1);
            }
            encode_varint(body as u64, &mut out[start - 1..]);
        }
    }
}

impl Output<'_> {
    fn encoder(&mut self) -> Encoder<'_, Self> {
        Encoder::new(self)
    }

    /// A number.
    pub fn one<S: Scalar>(&mut self, field: u32, value: Option<S::Rust>) {
        if let Some(value) = value {
            S::write(&mut self.encoder(), field, value);
        }
    }

    /// Numbers, each a field.
    pub fn each<S: Scalar>(&mut self, field: u32, values: &[S::Rust]) {
        for value in values {
            S::write(&mut self.encoder(), field, *value);
        }
    }

    /// Numbers in an array.
    pub fn packed<S: Scalar>(&mut self, field: u32, values: &[S::Rust]) {
        if !values.is_empty() {
            let mut array = Vec::new();
            values.iter().for_each(|value| S::put(&mut array, *value));
            self.encoder().bytes(field, &array);
        }
    }

    /// A value of an enumeration.
    pub fn known<E: Enumeration>(&mut self, field: u32, value: Option<E>) {
        self.one::<Int32>(field, value.map(E::to_i32));
    }

    /// Values of an enumeration.
    pub fn each_known<E: Enumeration>(&mut self, field: u32, values: &[E]) {
        for value in values {
            self.known(field, Some(*value));
        }
    }

    /// A string or bytes.
    pub fn bytes(&mut self, field: u32, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.encoder().bytes(field, value);
        }
    }

    /// Strings or bytes.
    pub fn each_bytes(&mut self, field: u32, values: &[Vec<u8>]) {
        for value in values {
            self.encoder().bytes(field, value);
        }
    }

    /// A message.
    pub fn message<M: Message>(&mut self, field: u32, message: &MessageField<M>) {
        if let Some(message) = message.as_option() {
            self.nested(field, message);
        }
    }

    /// Messages.
    pub fn each_message<M: Message>(&mut self, field: u32, messages: &[M]) {
        for message in messages {
            self.nested(field, message);
        }
    }

    /// A message that is there.
    pub fn nested(&mut self, field: u32, message: &dyn Codec) {
        self.encoder()
            .nested(field, |out| message.encode_fields(out.sink()));
    }

    /// Fields that the schema does not have.
    pub fn unknown(&mut self, fields: &UnknownFields) {
        self.write(fields.as_bytes());
    }
}
