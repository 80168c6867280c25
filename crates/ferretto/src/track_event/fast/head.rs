//! The beginnings of events and of their fields, put together in registers.

use ferretto_engine::{EventBuffer, EventEncoder};
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_proto::fields::{debug_annotation, trace_packet, track_event};
use ferretto_wire::{Mark, Sink, varint_bits};

/// The number of bytes that [`EVENT`] has.
pub(in crate::track_event) const EVENT_LENGTH: usize = 4;

/// The bytes that follow the timestamp in the packet of an event: the flag that says that it needs
/// what was interned before, and the tag and length, 0 for now, of the event; the first byte
/// lowest.
pub(in crate::track_event) const EVENT: u32 = u32::from_le_bytes([
    (trace_packet::SEQUENCE_FLAGS << 3) as u8,
    2,
    (trace_packet::TRACK_EVENT << 3 | 2) as u8,
    0,
]);

/// Returns the beginning of the packet of an event, which is the timestamp: its bytes, the first
/// one lowest, and how many there are. `None` if it takes more than four bytes and its tag.
#[inline(always)]
pub(in crate::track_event) fn short_timestamp(timestamp: u64) -> Option<(u64, usize)> {
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

/// Begins an argument of an event, whose name has an iid.
#[inline]
pub(in crate::track_event) fn begin_annotation(buffer: &mut EventBuffer, name: u64) -> Mark {
    const ANNOTATION: u8 = (track_event::DEBUG_ANNOTATIONS << 3 | 2) as u8;
    const NAME: u8 = (debug_annotation::NAME_IID << 3) as u8;
    if name < 0x80 {
        let bytes = u32::from_le_bytes([ANNOTATION, 0, NAME, name as u8]);
        buffer.write_short(&u128::from(bytes).to_le_bytes(), 4);
        return mark(buffer, 3);
    }
    let mut event = EventEncoder::new(buffer);
    let mark = event.begin_nested(track_event::DEBUG_ANNOTATIONS);
    event.varint(debug_annotation::NAME_IID, name);
    mark
}

/// Empties the buffer and begins the packet of an event: a timestamp, the flag that says that it
/// needs what was interned before, and the event.
#[inline]
pub(in crate::track_event) fn begin_event(buffer: &mut EventBuffer, timestamp: u64) -> Mark {
    buffer.clear();
    let Some((time, width)) = short_timestamp(timestamp) else {
        return begin_late_event(buffer, timestamp);
    };
    let bits = u128::from(time) | u128::from(EVENT) << (8 * width);
    buffer.write_short(&bits.to_le_bytes(), width + EVENT_LENGTH);
    mark(buffer, 1)
}

/// The same for timestamps that take more space.
#[inline(never)]
fn begin_late_event(buffer: &mut EventBuffer, timestamp: u64) -> Mark {
    let mut packet = EventEncoder::new(buffer);
    packet.varint(trace_packet::TIMESTAMP, timestamp);
    packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    packet.begin_nested(trace_packet::TRACK_EVENT)
}

/// Appends an integer, with a tag of one byte.
#[inline(always)]
pub(in crate::track_event) fn put_varint<const FIELD: u32>(buffer: &mut EventBuffer, value: u64) {
    const { assert!(FIELD < 16) };
    let (bits, length) = match value {
        0..0x80 => (value, 2),
        0x80..0x4000 => (value & 0x7f | 0x80 | value >> 7 << 8, 3),
        _ => return EventEncoder::new(buffer).varint(FIELD, value),
    };
    let bits = u128::from(FIELD << 3) | u128::from(bits) << 8;
    buffer.write_short(&bits.to_le_bytes(), length);
}

/// The nested message whose length, one byte, was written so many bytes before the end.
#[inline]
fn mark(buffer: &EventBuffer, behind: u64) -> Mark {
    let slot = buffer.position() - behind;
    Mark {
        start: slot + 1,
        slot: slot as usize,
    }
}

#[cfg(test)]
mod tests {
    use ferretto_wire::Encoder;

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
            let mark = begin_event(&mut buffer, timestamp);
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
}
