//! The start of packets: a timestamp and the sequence flags.

use ferretto_engine::{EventBuffer, EventEncoder};
use ferretto_format::SequenceWriter;
use ferretto_proto::fields::trace_packet;
use ferretto_wire::Mark;

use crate::track_event::fast;
use crate::track_event::time::Timestamp;

/// Starts the packet of an event: writes its timestamp and opens the event.
#[inline]
pub(super) fn begin_event(
    state: &mut SequenceWriter,
    buffer: &mut EventBuffer,
    now: u64,
    time: Option<Timestamp>,
) -> Mark {
    if time.is_none()
        && state.clocks().is_plain()
        && let Some(difference) = state.clocks().difference(now)
    {
        state.advance(now);
        return fast::begin_event(buffer, difference);
    }
    begin_unusual_event(state, buffer, now, time)
}

#[cold]
fn begin_unusual_event(
    state: &mut SequenceWriter,
    buffer: &mut EventBuffer,
    now: u64,
    time: Option<Timestamp>,
) -> Mark {
    let mut packet = begin(state, buffer, now, time);
    packet.begin_nested(trace_packet::TRACK_EVENT)
}

/// Empties the buffer and starts any packet except the first one of the sequence.
#[cold]
pub(super) fn begin<'b>(
    state: &mut SequenceWriter,
    buffer: &'b mut EventBuffer,
    now: u64,
    time: Option<Timestamp>,
) -> EventEncoder<'b> {
    buffer.clear();
    let Timestamp { clock, value } = time.unwrap_or(Timestamp::new(now));
    let mut packet = EventEncoder::new(buffer);
    state.begin_packet(&mut packet, clock, value);
    packet
}
