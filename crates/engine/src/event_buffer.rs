//! The memory in which events are encoded before they go to the recordings.

use std::fmt;

use ferretto_wire::{Encoder, MAX_NESTED_LENGTH, Mark, Sink, redundant_length};

/// An [`Encoder`] of a part of an event.
pub type EventEncoder<'a> = Encoder<'a, EventBuffer>;

/// The number of bytes always available after the written ones, so that short values are copied
/// without a check.
const SLACK: usize = 16;

/// The largest memory kept between events, in bytes.
const KEPT: usize = 64 << 10;

/// The largest length of a body whose length is written as one byte.
const COMPACT: usize = 127;

/// The memory of an [`EventEncoder`]. Each thread has its own, and reuses it.
///
/// The length of a nested message takes one byte, or four if it is above 127.
pub struct EventBuffer {
    /// At least [`SLACK`] longer than the used part, except before the first use.
    bytes: Vec<u8>,
    used: usize,
}

impl EventBuffer {
    /// Returns an empty buffer, which uses no memory before its first use.
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            used: 0,
        }
    }

    /// Drops the content.
    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT {
            self.shrink();
        }
    }

    /// Returns the content.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    #[cold]
    fn shrink(&mut self) {
        self.bytes = Vec::new();
    }

    /// Makes space for `length` more bytes.
    #[cold]
    fn grow(&mut self, length: usize) {
        let size = (self.used + length + SLACK).next_power_of_two();
        self.bytes.resize(size.max(512), 0);
    }
}

impl Sink for EventBuffer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if self.bytes.len() - self.used < bytes.len() + SLACK {
            self.grow(bytes.len());
        }
        self.bytes[self.used..][..bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    #[inline]
    fn write_short(&mut self, bytes: &[u8; 16], length: usize) {
        let target = self.bytes.get_mut(self.used..);
        match target.and_then(<[u8]>::first_chunk_mut) {
            Some(target) => {
                let target: &mut [u8; 16] = target;
                // In two halves: the bytes come from two registers, and combining them through
                // memory would be slow.
                let value = u128::from_le_bytes(*bytes);
                let (low, high) = target.split_at_mut(8);
                low.copy_from_slice(&(value as u64).to_le_bytes());
                high.copy_from_slice(&((value >> 64) as u64).to_le_bytes());
                self.used += length.min(16);
            }
            None => self.write(&bytes[..length.min(16)]),
        }
    }

    #[inline]
    fn position(&self) -> u64 {
        self.used as u64
    }

    #[inline]
    fn open(&mut self) -> Mark {
        let slot = self.used;
        self.write_short(&[0; 16], 1);
        Mark {
            start: self.used as u64,
            slot,
        }
    }

    #[inline]
    fn close(&mut self, mark: Mark) {
        let length = self.used.saturating_sub(mark.slot + 1);
        match self.bytes.get_mut(mark.slot) {
            Some(target) if length <= COMPACT => *target = length as u8,
            _ => self.close_long(mark.slot, length),
        }
    }
}

impl EventBuffer {
    /// Moves a long nested message to make space for its length.
    #[cold]
    fn close_long(&mut self, slot: usize, length: usize) {
        let number = u32::try_from(length).unwrap_or(MAX_NESTED_LENGTH);
        let number = redundant_length(number);
        self.write(&number[1..]);
        self.bytes
            .copy_within(slot + 1..slot + 1 + length, slot + 4);
        self.bytes[slot..slot + 4].copy_from_slice(&number);
    }
}

impl Default for EventBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EventBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBuffer")
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_messages_are_encoded_as_in_chunks() {
        for length in [0, 1, 124, 125, 126, 127, 128, 200, 1000, 70_000] {
            let text = vec![b'x'; length];
            let mut expected = Vec::new();
            let mut buffer = EventBuffer::new();
            fn write<S: Sink>(m: &mut Encoder<'_, S>, text: &[u8]) {
                m.varint(1, 1 << 40);
                m.nested(2, |m| {
                    m.nested(3, |m| m.bytes(4, text));
                    m.nested(5, |_| {});
                });
                m.fixed64(6, 7);
            }
            write(&mut Encoder::new(&mut expected), &text);
            for _ in 0..2 {
                buffer.clear();
                write(&mut Encoder::new(&mut buffer), &text);
                assert!(buffer.written() == expected, "{length}");
            }
        }
    }
}
