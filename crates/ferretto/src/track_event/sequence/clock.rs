//! How timestamps are written.

use ferretto_format::clock::{INCREMENTAL, SCALED};
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_proto::fields::{clock_snapshot, trace_packet};
use ferretto_wire::Mark;

use crate::track_event::buffer::{EventBuffer, EventEncoder, short_timestamp};
use crate::track_event::filter::Filter;
use crate::track_event::time::Timestamp;

/// The clocks of one sequence.
#[derive(Debug)]
pub(super) struct Clock {
    /// Nanoseconds per unit, at least 1.
    unit: u64,
    is_incremental: bool,
    /// Times are differences in nanoseconds.
    is_plain: bool,
    /// The number of the clock that events are timed by.
    base: u32,
    /// The time that differences refer to.
    last: u64,
}

impl Clock {
    pub(super) fn new(filter: &Filter, base: u32) -> Self {
        Self {
            unit: filter.timestamp_unit,
            is_incremental: !filter.absolute_timestamps,
            is_plain: !filter.absolute_timestamps && filter.timestamp_unit == 1,
            base,
            last: 0,
        }
    }

    pub(super) fn reset(&mut self, now: u64) {
        self.last = now;
    }

    pub(super) fn unit(&self) -> u64 {
        self.unit
    }

    fn absolute_clock(&self) -> u32 {
        if self.unit == 1 { self.base } else { SCALED }
    }

    /// The clock of packets that name none.
    pub(super) fn default_clock(&self) -> u32 {
        if self.is_incremental {
            INCREMENTAL
        } else {
            self.absolute_clock()
        }
    }

    /// Begins the packet of an event: its time, and the message.
    #[inline]
    pub(super) fn begin_event(
        &mut self,
        buffer: &mut EventBuffer,
        now: u64,
        time: Option<Timestamp>,
    ) -> Mark {
        if time.is_none() && self.is_plain && now >= self.last {
            let difference = now - self.last;
            self.last = now;
            return buffer.begin_event(difference);
        }
        self.begin_unusual_event(buffer, now, time)
    }

    /// Whether times are differences in nanoseconds.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// How the packet of an event begins that happens now and whose time [is plain](Self::is_plain), if it begins in the
    /// usual way. To be followed by [`advance`](Self::advance) if it is written.
    #[inline(always)]
    pub(super) fn usual_time(&self, now: u64) -> Option<(u64, usize)> {
        short_timestamp(now.checked_sub(self.last)?)
    }

    /// Such a packet was written.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        self.last = now;
    }

    #[cold]
    fn begin_unusual_event(
        &mut self,
        buffer: &mut EventBuffer,
        now: u64,
        time: Option<Timestamp>,
    ) -> Mark {
        buffer.clear();
        self.write(buffer, now, time, NEEDS_INCREMENTAL_STATE);
        buffer.begin_nested(trace_packet::TRACK_EVENT)
    }

    /// Writes the fields that every packet begins with.
    #[cold]
    pub(super) fn write(
        &mut self,
        buffer: &mut EventBuffer,
        now: u64,
        time: Option<Timestamp>,
        flags: u64,
    ) {
        let mut packet = EventEncoder::new(buffer);
        self.write_time(&mut packet, time.unwrap_or(Timestamp::new(now)));
        packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
    }

    fn write_time(&mut self, packet: &mut EventEncoder<'_>, time: Timestamp) {
        let Timestamp { mut clock, value } = time;
        let default = self.default_clock();
        if clock == INCREMENTAL {
            clock = default;
        }
        let (value, clock) = if clock == INCREMENTAL && value >= self.last {
            let units = (value - self.last) / self.unit;
            // Whole units only, so that what is cut off is not lost.
            self.last += units * self.unit;
            (units, None)
        } else if clock == INCREMENTAL {
            (value / self.unit, Some(self.absolute_clock()))
        } else if clock == default {
            (value / self.unit, None)
        } else {
            (value, Some(clock))
        };
        packet.varint(trace_packet::TIMESTAMP, value);
        if let Some(clock) = clock {
            packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock.into());
        }
    }

    /// Tells readers how the clocks of the sequence relate to the one that events are timed by.
    pub(super) fn write_snapshot(&self, packet: &mut EventEncoder<'_>, now: u64) {
        let scaled = now / self.unit;
        let clocks = [
            Some((self.base, now, None)),
            self.is_incremental
                .then_some((INCREMENTAL, scaled, Some(true))),
            (self.unit != 1).then_some((SCALED, scaled, Some(false))),
        ];
        if clocks.iter().flatten().count() == 1 {
            return;
        }
        packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
            for (id, time, is_incremental) in clocks.into_iter().flatten() {
                snapshot.nested(clock_snapshot::CLOCKS, |clock| {
                    clock.varint(clock_snapshot::clock::CLOCK_ID, id.into());
                    clock.varint(clock_snapshot::clock::TIMESTAMP, time);
                    if let Some(is_incremental) = is_incremental {
                        clock.bool(clock_snapshot::clock::IS_INCREMENTAL, is_incremental);
                        clock.varint(clock_snapshot::clock::UNIT_MULTIPLIER_NS, self.unit);
                    }
                });
            }
        });
    }
}
