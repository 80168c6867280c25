//! Integers of variable length in indexes.

use ferretto_wire::{MAX_VARINT_LENGTH, decode_varint, encode_varint, zigzag, zigzag_decode};

/// Appends a number.
pub(crate) fn put(bytes: &mut Vec<u8>, number: u64) {
    let mut coded = [0; MAX_VARINT_LENGTH];
    let length = encode_varint(number, &mut coded);
    bytes.extend_from_slice(&coded[..length]);
}

/// Appends a number that may be negative.
pub(crate) fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, zigzag(number));
}

/// The numbers in bytes that were written by this program, and have a checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Varints<'a>(&'a [u8]);

impl<'a> Varints<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next number, or 0 if there is none.
    pub(crate) fn next(&mut self) -> u64 {
        let (number, length) = decode_varint(self.0).unwrap_or((0, self.0.len()));
        self.0 = &self.0[length..];
        number
    }

    /// Returns the next number, which may be negative.
    pub(crate) fn signed(&mut self) -> i64 {
        zigzag_decode(self.next())
    }

    /// Returns the next byte, or 0 if there is none.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }

    /// Returns the next floating-point number, or 0 if there is none.
    pub(crate) fn real(&mut self) -> f64 {
        f64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}
