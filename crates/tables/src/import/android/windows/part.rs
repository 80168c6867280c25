//! Messages of which single fields are read.

use ferretto_wire::{Field, Fields};

/// An encoded message. The last field of each number applies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Part<'a>(pub(super) &'a [u8]);

impl<'a> Part<'a> {
    pub(super) fn fields(self) -> impl Iterator<Item = Field<'a>> {
        Fields::new(self.0).map_while(Result::ok)
    }

    fn field(self, number: u32) -> Option<Field<'a>> {
        self.fields().filter(|field| field.number == number).last()
    }

    pub(super) fn has(self, number: u32) -> bool {
        self.field(number).is_some()
    }

    /// Returns a 64-bit integer.
    pub(super) fn long(self, number: u32) -> Option<i64> {
        self.field(number)?.as_u64().map(|value| value as i64)
    }

    /// Returns a signed 32-bit integer.
    pub(super) fn int(self, number: u32) -> Option<i32> {
        self.field(number)?.as_u64().map(|value| value as i32)
    }

    /// Returns an unsigned 32-bit integer.
    pub(super) fn uint(self, number: u32) -> Option<u32> {
        self.field(number)?.as_u64().map(|value| value as u32)
    }

    /// Returns a signed integer that is encoded for small numbers of both signs, or 0.
    pub(super) fn sint(self, number: u32) -> i64 {
        let value = self.field(number).and_then(|field| field.as_sint());
        value.unwrap_or(0)
    }

    pub(super) fn bool(self, number: u32) -> Option<bool> {
        self.field(number)?.as_bool()
    }

    /// Returns a floating-point number, or 0.
    pub(super) fn float(self, number: u32) -> f64 {
        let value = self.field(number).and_then(|field| field.as_f64());
        value.unwrap_or(0.0)
    }

    pub(super) fn bytes(self, number: u32) -> Option<&'a [u8]> {
        self.field(number)?.as_bytes()
    }

    /// Returns a message.
    pub(super) fn part(self, number: u32) -> Option<Self> {
        self.bytes(number).map(Self)
    }

    /// Returns the messages of a repeated field.
    pub(super) fn parts(self, number: u32) -> impl Iterator<Item = Self> {
        let fields = self.fields().filter(move |field| field.number == number);
        fields.filter_map(|field| field.as_bytes().map(Self))
    }

    /// Returns the integers of a repeated field.
    pub(super) fn integers(self, number: u32) -> impl Iterator<Item = u64> {
        let fields = self.fields().filter(move |field| field.number == number);
        fields.flat_map(|field| field.as_varints())
    }
}
