//! Where events are encoded before they go to the recordings.

use std::fmt;

use ferretto_proto::fields::{debug_annotation, trace_packet, track_event};
use ferretto_wire::{Encoder, MAX_NESTED_LENGTH, Mark, Sink, redundant_length, varint_bits};

/// An [`Encoder`] of a part of an event.
pub type EventEncoder<'a> = Encoder<'a, EventBuffer>;

/// Bytes that are always there behind those written, so that short values are copied without asking.
const SLACK: usize = 16;

/// What is kept between events at most, in bytes.
const KEPT: usize = 64 << 10;

/// Longest body whose length is written as one byte.
const COMPACT: usize = 127;

/// The memory below an [`EventEncoder`]. Each thread has its own and uses it again and again.
///
/// The length of a nested message takes one byte, or four if it is above 127.
pub struct EventBuffer {
    /// Longer than what is used by at least [`SLACK`], except before the first use.
    bytes: Vec<u8>,
    used: usize,
}

impl EventBuffer {
    /// An empty one; no memory is taken before the first use.
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            used: 0,
        }
    }

    /// Forgets what was written.
    #[doc(hidden)]
    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT {
            self.shrink();
        }
    }

    /// What was written.
    #[doc(hidden)]
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    #[cold]
    fn shrink(&mut self) {
        self.bytes = Vec::new();
    }

    /// Makes room for `length` more bytes.
    #[cold]
    fn grow(&mut self, length: usize) {
        let size = (self.used + length + SLACK).next_power_of_two();
        self.bytes.resize(size.max(512), 0);
    }
}

/// How many bytes [`EVENT`] has.
pub(super) const EVENT_LENGTH: usize = 4;

/// What follows the timestamp in the packet of an event: the flag that says that it needs what was interned before, and
/// the tag and length, 0 for now, of the event; the first byte lowest.
pub(super) const EVENT: u32 = u32::from_le_bytes([
    (trace_packet::SEQUENCE_FLAGS << 3) as u8,
    2,
    (trace_packet::TRACK_EVENT << 3 | 2) as u8,
    0,
]);

/// How the packet of an event begins: with the timestamp; the first byte lowest, and how many there are. `None` if it
/// takes more than four bytes and its tag.
#[inline(always)]
pub(super) fn short_timestamp(timestamp: u64) -> Option<(u64, usize)> {
    const TAG: u64 = (trace_packet::TIMESTAMP << 3) as u64;
    let (groups, length) = match timestamp {
        0..0x80 => (timestamp, 1),
        0x80..0x4000 => (timestamp & 0x7f | 0x80 | timestamp >> 7 << 8, 2),
        0x4000..0x1000_0000 => {
            let (groups, length) = varint_bits(timestamp);
            (groups as u64, length)
        }
        _ => return None,
    };
    Some((TAG | groups << 8, 1 + length))
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
        let place = self.bytes.get_mut(self.used..);
        match place.and_then(<[u8]>::first_chunk_mut) {
            Some(place) => {
                let place: &mut [u8; 16] = place;
                // In halves: the bytes come from two registers, and waiting for them in memory would take long.
                let value = u128::from_le_bytes(*bytes);
                let (low, high) = place.split_at_mut(8);
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
            Some(place) if length <= COMPACT => *place = length as u8,
            _ => self.close_long(mark.slot, length),
        }
    }
}

/// Nested messages without closures, for the shape that every event has.
impl EventBuffer {
    /// Begins a nested message.
    #[inline]
    pub(super) fn begin_nested(&mut self, field: u32) -> Mark {
        // An empty one, whose length is corrected when it ends.
        Encoder::new(self).bytes(field, &[]);
        self.mark(self.used - 1)
    }

    /// Begins an argument of an event, whose name has a number.
    #[inline]
    pub(super) fn begin_annotation(&mut self, name: u64) -> Mark {
        const ANNOTATION: u8 = (track_event::DEBUG_ANNOTATIONS << 3 | 2) as u8;
        const NAME: u8 = (debug_annotation::NAME_IID << 3) as u8;
        if name < 0x80 {
            let bytes = u32::from_le_bytes([ANNOTATION, 0, NAME, name as u8]);
            self.write_known(&u128::from(bytes).to_le_bytes(), 4);
            return self.mark(self.used - 3);
        }
        let mark = self.begin_nested(track_event::DEBUG_ANNOTATIONS);
        Encoder::new(self).varint(debug_annotation::NAME_IID, name);
        mark
    }

    /// Forgets what was written and begins the packet of an event: a timestamp, the flag that says that it needs what was
    /// interned before, and the event.
    #[inline]
    pub(super) fn begin_event(&mut self, timestamp: u64) -> Mark {
        self.clear();
        let Some((time, width)) = short_timestamp(timestamp) else {
            return self.begin_late_event(timestamp);
        };
        let bits = u128::from(time) | u128::from(EVENT) << (8 * width);
        self.write_known(&bits.to_le_bytes(), width + EVENT_LENGTH);
        self.mark(self.used - 1)
    }

    /// The same for times that take more space.
    #[inline(never)]
    fn begin_late_event(&mut self, timestamp: u64) -> Mark {
        Encoder::new(self).varint(trace_packet::TIMESTAMP, timestamp);
        Encoder::new(self).varint(trace_packet::SEQUENCE_FLAGS, 2);
        self.begin_nested(trace_packet::TRACK_EVENT)
    }

    /// Appends an integer, with a tag of one byte.
    #[inline(always)]
    pub(super) fn put_varint<const FIELD: u32>(&mut self, value: u64) {
        const { assert!(FIELD < 16) };
        let (bits, length) = match value {
            0..0x80 => (value, 2),
            0x80..0x4000 => (value & 0x7f | 0x80 | value >> 7 << 8, 3),
            _ => return Encoder::new(self).varint(FIELD, value),
        };
        let bits = u128::from(FIELD << 3) | u128::from(bits) << 8;
        self.write_known(&bits.to_le_bytes(), length);
    }

    /// Appends the first `length` of sixteen bytes.
    #[inline]
    pub(super) fn write_known(&mut self, bytes: &[u8; 16], length: usize) {
        self.write_short(bytes, length);
    }

    #[inline]
    fn mark(&self, slot: usize) -> Mark {
        Mark {
            start: slot as u64 + 1,
            slot,
        }
    }

    #[inline]
    pub(super) fn end_nested(&mut self, mark: Mark) {
        self.close(mark);
    }

    /// Moves a long nested message back to make room for its length.
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
    fn headers_of_events_are_those_that_an_encoder_writes() {
        let edges = (0..40).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for timestamp in edges.chain((0..1 << 28).step_by(999_983)) {
            let mut expected = Vec::new();
            let mut packet = Encoder::new(&mut expected);
            packet.varint(trace_packet::TIMESTAMP, timestamp);
            packet.varint(trace_packet::SEQUENCE_FLAGS, 2);
            packet.bytes(trace_packet::TRACK_EVENT, &[]);
            let mut buffer = EventBuffer::new();
            let mark = buffer.begin_event(timestamp);
            assert_eq!(mark.slot + 1, expected.len());
            assert_eq!(buffer.written(), expected, "{timestamp}");
            let time = short_timestamp(timestamp);
            assert_eq!(time.is_some(), timestamp < 1 << 28);
            if let Some((bits, length)) = time {
                let header = [&bits.to_le_bytes()[..length], &EVENT.to_le_bytes()].concat();
                assert_eq!(header, expected);
            }
        }
    }

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
