//! A few numbers: the values of most spans, stored without allocation.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_core::field::{Field, Visit};

use super::stored::tag;

/// The maximum number of values that are passed individually, which is fastest for numbers.
pub(crate) const FEW: usize = 4;

/// Numbers and Booleans with their fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    /// For each value 16 bits, the first one lowest: eight times the index of its field, plus its
    /// [`tag`], plus one.
    fields: u64,
    values: [u64; FEW],
    count: usize,
    /// True if there are other values, or too many.
    is_more: bool,
}

impl Numbers {
    #[inline]
    fn push(&mut self, field: &Field, tag: u8, value: u64) {
        let (Ok(index), Some(target)) =
            (u8::try_from(field.index()), self.values.get_mut(self.count))
        else {
            self.is_more = true;
            return;
        };
        *target = value;
        let code = u64::from(index) * 8 + u64::from(tag) + 1;
        self.fields |= code << (16 * self.count);
        self.count += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && !self.is_more
    }

    /// Returns true if there are other values, or too many.
    pub(crate) fn is_more(&self) -> bool {
        self.is_more
    }
}

impl Visit for Numbers {
    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, tag::INT, value as u64);
    }

    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, tag::UINT, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.record_i64(field, value),
            Err(_) => self.is_more = true,
        }
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.record_u64(field, value),
            Err(_) => self.is_more = true,
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, tag::DOUBLE, value.to_bits());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, if value { tag::TRUE } else { tag::FALSE }, 0);
    }

    fn record_str(&mut self, _: &Field, _: &str) {
        self.is_more = true;
    }

    fn record_bytes(&mut self, _: &Field, _: &[u8]) {
        self.is_more = true;
    }

    fn record_error(&mut self, _: &Field, _: &(dyn Error + 'static)) {
        self.is_more = true;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {
        self.is_more = true;
    }
}

/// Numbers that are read without a lock. The writer ensures that there are no readers
/// meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// 0 if empty.
    fields: AtomicU64,
    values: [AtomicU64; FEW],
}

impl Shared {
    #[inline]
    pub(crate) fn set(&self, numbers: &Numbers) {
        for (target, value) in self.values.iter().zip(&numbers.values[..numbers.count]) {
            target.store(*value, Ordering::Relaxed);
        }
        self.fields.store(numbers.fields, Ordering::Relaxed);
    }

    /// Removes the numbers. Concurrent readers still get them.
    pub(crate) fn clear(&self) {
        self.fields.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.load(Ordering::Relaxed) == 0
    }

    /// Returns the value, as in [`iter`](Self::iter), if there is exactly one.
    #[inline]
    pub(crate) fn single(&self) -> Option<(u8, u8, u64)> {
        let fields = self.fields.load(Ordering::Relaxed);
        let bits = self.values[0].load(Ordering::Relaxed);
        (fields <= 0xffff).then_some(())?;
        part(fields, bits)
    }

    /// Returns the index of the field, the tag and the bits of each value.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, u8, u64)> {
        let mut fields = self.fields.load(Ordering::Relaxed);
        self.values.iter().map_while(move |bits| {
            let part = part(fields, bits.load(Ordering::Relaxed));
            fields >>= 16;
            part
        })
    }
}

/// Returns the index of the first field, its tag and its bits, if there is one.
#[inline]
fn part(fields: u64, bits: u64) -> Option<(u8, u8, u64)> {
    let code = (fields & 0xffff).checked_sub(1)?;
    Some(((code / 8) as u8, (code % 8) as u8, bits))
}
