//! The encoding of the start of packets and of their fields, in registers.

use ferretto_engine::{EventBuffer, EventEncoder};
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_proto::fields::{debug_annotation, trace_packet, track_event};
use ferretto_wire::{Mark, Sink, varint_bits};

/// The number of bytes in [`EVENT`].
pub(in crate::track_event) const EVENT_LENGTH: usize = 4;

/// The bytes after the timestamp of an event's packet: the flag that the packet needs the
/// incremental state, and the tag of the event with a length of 0; the first byte lowest.
pub(in crate::track_event) const EVENT: u32 = u32::from_le_bytes([
    (trace_packet::SEQUENCE_FLAGS << 3) as u8,
    2,
    (trace_packet::TRACK_EVENT << 3 | 2) as u8,
    0,
]);

/// Encodes a timestamp, the start of a packet: the bytes, the first one lowest, and their number.
/// `None` if the value takes more than four bytes.
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

/// Opens an argument whose name has an iid.
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

/// Empties the buffer and starts the packet of an event: the timestamp, the flag that the packet
/// needs the incremental state, and the event.
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

/// Like [`begin_event`], for longer timestamps.
#[inline(never)]
fn begin_late_event(buffer: &mut EventBuffer, timestamp: u64) -> Mark {
    let mut packet = EventEncoder::new(buffer);
    packet.varint(trace_packet::TIMESTAMP, timestamp);
    packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    packet.begin_nested(trace_packet::TRACK_EVENT)
}

/// Appends an integer field with a one-byte tag.
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

/// Returns the mark of the nested message whose one-byte length is `behind` bytes before the end.
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
    fn headers_match_those_of_the_encoder() {
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
