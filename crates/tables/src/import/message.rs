//! Small messages that are read in one pass.

use ferretto_wire::{Field, Fields, Value};

/// The fields of a message with numbers below `N`. The last one of each number applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a, const N: usize>([Option<Value<'a>>; N]);

impl<'a, const N: usize> Message<'a, N> {
    /// Reads a message up to the first malformed field.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Self {
        let mut message = Self([None; N]);
        let fields = Fields::new(bytes).map_while(Result::ok);
        fields.for_each(|field| message.set(field));
        message
    }

    /// Reads a message as [`read`](Self::read) does, for those with thousands of fields.
    #[inline(always)]
    pub(crate) fn walk(bytes: &'a [u8]) -> Self {
        let mut message = Self([None; N]);
        Fields::walk(bytes, |field| message.set(field));
        message
    }

    #[inline]
    fn set(&mut self, Field { number, value }: Field<'a>) {
        if let Some(slot) = self.0.get_mut(number as usize) {
            *slot = Some(value);
        }
    }

    /// Returns true if the field exists.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.value(number).is_some()
    }

    /// Returns an unsigned integer, or 0 if it is missing.
    #[inline]
    pub(crate) fn uint(&self, number: u32) -> u64 {
        match self.value(number) {
            Some(Value::Varint(value) | Value::Fixed64(value)) => value,
            Some(Value::Fixed32(value)) => value.into(),
            _ => 0,
        }
    }

    /// Returns a signed integer, or 0 if it is missing.
    #[inline]
    pub(crate) fn int(&self, number: u32) -> i64 {
        self.uint(number) as i64
    }

    /// Returns a 32-bit integer, or 0 if it is missing.
    #[inline]
    pub(crate) fn u32(&self, number: u32) -> u32 {
        self.uint(number) as u32
    }

    /// Returns bytes, empty if they are missing.
    #[inline]
    pub(crate) fn bytes(&self, number: u32) -> &'a [u8] {
        match self.value(number) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    #[inline]
    fn value(&self, number: u32) -> Option<Value<'a>> {
        self.0.get(number as usize).copied().flatten()
    }
}
