//! How events and their packets begin: with a time.

use ferretto_engine::{EventBuffer, EventEncoder};
use ferretto_format::EventClocks;
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_proto::fields::trace_packet;
use ferretto_wire::Mark;

use crate::track_event::fast;
use crate::track_event::time::Timestamp;

/// Begins the packet of an event: its time, and the message.
#[inline]
pub(super) fn begin_event(
    clocks: &mut EventClocks,
    buffer: &mut EventBuffer,
    now: u64,
    time: Option<Timestamp>,
) -> Mark {
    if time.is_none()
        && clocks.is_plain()
        && let Some(difference) = clocks.difference(now)
    {
        clocks.advance(now);
        return fast::begin_event(buffer, difference);
    }
    begin_unusual_event(clocks, buffer, now, time)
}

#[cold]
fn begin_unusual_event(
    clocks: &mut EventClocks,
    buffer: &mut EventBuffer,
    now: u64,
    time: Option<Timestamp>,
) -> Mark {
    buffer.clear();
    write(clocks, buffer, now, time, NEEDS_INCREMENTAL_STATE);
    EventEncoder::new(buffer).begin_nested(trace_packet::TRACK_EVENT)
}

/// Writes the fields that every packet begins with.
#[cold]
pub(super) fn write(
    clocks: &mut EventClocks,
    buffer: &mut EventBuffer,
    now: u64,
    time: Option<Timestamp>,
    flags: u64,
) {
    let Timestamp { clock, value } = time.unwrap_or(Timestamp::new(now));
    let mut packet = EventEncoder::new(buffer);
    clocks.write_timestamp(&mut packet, clock, value);
    packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
}
