//! The streaming encoder.

use std::fmt;

use crate::varint::{MAX_NESTED_LENGTH, redundant_length, varint_bits, zigzag};

/// The largest length of a body whose length is written as one byte when the message closes.
const COMPACT_LENGTH: u64 = 127;

/// An open nested message of a [`Sink`], to be passed to [`Sink::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an open message has no length until it is closed"]
pub struct Mark {
    /// [`Sink::position`] right after the reserved length bytes.
    pub start: u64,
    /// The position at which the sink finds the reserved bytes.
    pub slot: usize,
}

/// Memory to which encoded fields are appended.
///
/// Messages nest strictly: the last one opened is the first one closed.
pub trait Sink {
    /// Appends `bytes`; they need not stay contiguous.
    fn write(&mut self, bytes: &[u8]);

    /// Appends the first `length` bytes of `bytes`, where `length` ≤ 16. Sinks with space to spare
    /// can copy all sixteen, which is faster, and advance by `length`.
    #[inline]
    fn write_short(&mut self, bytes: &[u8; 16], length: usize) {
        self.write(&bytes[..length.min(16)]);
    }

    /// Returns the number of bytes appended so far. Closing a nested message may lower it, if its
    /// length takes fewer bytes than were reserved.
    fn position(&self) -> u64;

    /// Opens a nested message: reserves four contiguous bytes for its length.
    fn open(&mut self) -> Mark;

    /// Closes the innermost open message by filling in its length.
    fn close(&mut self, mark: Mark);
}

impl Sink for Vec<u8> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn write_short(&mut self, bytes: &[u8; 16], length: usize) {
        let end = self.len() + length.min(16);
        self.extend_from_slice(bytes);
        self.truncate(end);
    }

    #[inline]
    fn position(&self) -> u64 {
        self.len() as u64
    }

    #[inline]
    fn open(&mut self) -> Mark {
        let slot = self.len();
        self.extend_from_slice(&[0; 4]);
        Mark {
            start: self.len() as u64,
            slot,
        }
    }

    fn close(&mut self, mark: Mark) {
        let body = self.len().saturating_sub(mark.slot + 4);
        if body as u64 <= COMPACT_LENGTH {
            self.copy_within(mark.slot + 4.., mark.slot + 1);
            self.truncate(mark.slot + 1 + body);
            self[mark.slot] = body as u8;
        } else {
            let body = u32::try_from(body).unwrap_or(MAX_NESTED_LENGTH);
            self[mark.slot..mark.slot + 4].copy_from_slice(&redundant_length(body));
        }
    }
}

/// Appends the fields of one message to a [`Sink`].
///
/// The caller chooses the order of fields; duplicates are not detected. Field numbers must be 1 to
/// 2^29 − 1. A nested message longer than 2^28 − 1 bytes cannot be represented.
pub struct Encoder<'a, S: Sink + ?Sized> {
    sink: &'a mut S,
}

impl<S: Sink + ?Sized> fmt::Debug for Encoder<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("position", &self.sink.position())
            .finish()
    }
}

impl<'a, S: Sink + ?Sized> Encoder<'a, S> {
    /// Creates an encoder that appends to `sink`.
    #[inline]
    pub fn new(sink: &'a mut S) -> Self {
        Self { sink }
    }

    /// Appends an integer field (`int32`, `int64`, `uint32`, `uint64`, `enum`). Negative numbers
    /// are sign-extended to 64 bits by the caller: `value as u64` of an `i32` or `i64`.
    #[inline(always)]
    pub fn varint(&mut self, field: u32, value: u64) {
        // If the field is a constant, the bytes of its tag are one, too.
        self.tagged_varint(varint_bits(tag(field, 0)), value);
    }

    #[inline]
    fn tagged_varint(&mut self, tag: (u128, usize), value: u64) {
        if value < 0x80 {
            // One word has space for the tag, which is at most five bytes long, and the value.
            let bytes = tag.0 as u64 | value << (8 * tag.1);
            self.sink
                .write_short(&u128::from(bytes).to_le_bytes(), tag.1 + 1);
        } else {
            self.tagged(tag, varint_bits(value));
        }
    }

    /// Appends a tag and the short value after it, each given as its bytes, lowest first, and their
    /// number. Both are combined in a register and written at once.
    #[inline(always)]
    fn tagged(&mut self, tag: (u128, usize), value: (u128, usize)) {
        let bytes = (tag.0 | value.0 << (8 * tag.1)).to_le_bytes();
        self.sink.write_short(&bytes, tag.1 + value.1);
    }

    /// Appends a signed integer field of type `int32` or `int64`.
    #[inline]
    pub fn int(&mut self, field: u32, value: i64) {
        self.varint(field, value as u64);
    }

    /// Appends a zigzag-coded integer field (`sint32`, `sint64`).
    #[inline]
    pub fn sint(&mut self, field: u32, value: i64) {
        self.varint(field, zigzag(value));
    }

    /// Appends a boolean field.
    #[inline]
    pub fn bool(&mut self, field: u32, value: bool) {
        self.varint(field, value.into());
    }

    /// Appends a `fixed64` or `sfixed64` field.
    #[inline]
    pub fn fixed64(&mut self, field: u32, value: u64) {
        self.tagged(varint_bits(tag(field, 1)), (value.into(), 8));
    }

    /// Appends a `fixed32` or `sfixed32` field.
    #[inline]
    pub fn fixed32(&mut self, field: u32, value: u32) {
        self.tagged(varint_bits(tag(field, 5)), (value.into(), 4));
    }

    /// Appends a `double` field.
    #[inline]
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// Appends a `float` field.
    #[inline]
    pub fn float(&mut self, field: u32, value: f32) {
        self.fixed32(field, value.to_bits());
    }

    /// Appends a `bytes` field, or a nested message that is already encoded.
    #[inline(always)]
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tagged_bytes(varint_bits(tag(field, 2)), value);
    }

    #[inline]
    fn tagged_bytes(&mut self, tag: (u128, usize), value: &[u8]) {
        self.tagged_varint(tag, value.len() as u64);
        self.sink.write(value);
    }

    /// Appends a `string` field.
    #[inline]
    pub fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Appends a nested message whose fields `write` appends.
    #[inline(always)]
    pub fn nested<R>(&mut self, field: u32, write: impl FnOnce(&mut Encoder<'_, S>) -> R) -> R {
        let mark = self.begin_nested(field);
        let result = write(&mut Encoder {
            sink: &mut *self.sink,
        });
        self.end_nested(mark);
        result
    }

    /// Starts a nested message, for callers that cannot use a closure. Call
    /// [`end_nested`](Self::end_nested) for each, in the order of nesting.
    #[inline(always)]
    pub fn begin_nested(&mut self, field: u32) -> Mark {
        self.tagged_message(varint_bits(tag(field, 2)))
    }

    #[inline]
    fn tagged_message(&mut self, tag: (u128, usize)) -> Mark {
        self.sink.write_short(&tag.0.to_le_bytes(), tag.1);
        self.sink.open()
    }

    /// Ends the innermost nested message.
    #[inline]
    pub fn end_nested(&mut self, mark: Mark) {
        self.sink.close(mark);
    }

    /// Appends fields that are already encoded, tags included.
    #[inline]
    pub fn raw(&mut self, fields: &[u8]) {
        self.sink.write(fields);
    }

    /// Returns the underlying sink, for callers that must nest messages without a closure.
    #[inline]
    pub fn sink(&mut self) -> &mut S {
        self.sink
    }
}

/// Returns the encoding of one message, whose fields `write` appends.
pub fn encode(write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Encoder::new(&mut bytes));
    bytes
}

#[inline]
fn tag(field: u32, wire_type: u8) -> u64 {
    debug_assert!(
        field > 0 && field < 1 << 29,
        "field number {field} out of range"
    );
    u64::from(field) << 3 | u64::from(wire_type)
}
