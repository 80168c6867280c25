//! The encoding of track events' timestamps.

use ferretto_proto::fields::{clock_snapshot, trace_packet};
use ferretto_wire::{Encoder, Sink};

use crate::clock::{INCREMENTAL, SCALED};

/// The clocks of a sequence of track events.
///
/// Timestamps are differences from the previous packet ([`INCREMENTAL`]), or absolute: on the base
/// clock, or in units other than nanoseconds ([`SCALED`]).
#[derive(Clone, Copy, Debug)]
pub struct SequenceClocks {
    /// The nanoseconds per unit, at least 1.
    unit: u64,
    is_incremental: bool,
    /// The clock of events.
    base: u32,
    /// The base of differences, in nanoseconds of the base clock.
    last: u64,
}

impl SequenceClocks {
    /// Creates the clocks of a sequence whose timestamps count units of `unit` nanoseconds, as
    /// differences if `is_incremental`. Times are read from the clock `base`.
    pub fn new(unit: u64, is_incremental: bool, base: u32) -> Self {
        Self {
            unit: unit.max(1),
            is_incremental,
            base,
            last: 0,
        }
    }

    /// Sets the base of differences to `now`. Must be followed by a packet with a
    /// [snapshot](Self::write_snapshot).
    pub fn restart(&mut self, now: u64) {
        self.last = now;
    }

    /// Returns the nanoseconds per unit of timestamps.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns true if timestamps are differences in nanoseconds.
    pub fn is_plain(&self) -> bool {
        self.is_incremental && self.unit == 1
    }

    /// Returns the id of the default clock of packets.
    #[inline]
    pub fn default_clock(&self) -> u32 {
        if self.is_incremental {
            INCREMENTAL
        } else {
            self.absolute_clock()
        }
    }

    /// Returns the timestamp of a packet at `now` if clocks are [plain](Self::is_plain); `None` if
    /// time went backwards. Must be followed by [`advance`](Self::advance) if the packet is
    /// written.
    #[inline(always)]
    pub fn difference(&self, now: u64) -> Option<u64> {
        now.checked_sub(self.last)
    }

    /// Sets the base of the next difference to `now`.
    #[inline(always)]
    pub fn advance(&mut self, now: u64) {
        self.last = now;
    }

    /// Writes the timestamp of a packet, and its clock if it is not the default. A time on the
    /// clock [`INCREMENTAL`] is given on the base clock, and is written as a difference.
    pub fn write_timestamp<S: Sink>(&mut self, packet: &mut Encoder<'_, S>, clock: u32, time: u64) {
        let default = self.default_clock();
        let clock = if clock == INCREMENTAL { default } else { clock };
        let (value, named) = if clock == INCREMENTAL && time >= self.last {
            let units = self.units(time - self.last);
            // Only whole units, so that the remainder is not lost.
            self.last += units * self.unit;
            (units, None)
        } else if clock == INCREMENTAL {
            (self.units(time), Some(self.absolute_clock()))
        } else if clock == default {
            (self.units(time), None)
        } else {
            (time, Some(clock))
        };
        packet.varint(trace_packet::TIMESTAMP, value);
        if let Some(clock) = named {
            packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock.into());
        }
    }

    /// Writes a `ClockSnapshot` that relates the clocks of the sequence at the base clock's `now`,
    /// if it has any.
    pub fn write_snapshot<S: Sink>(&self, packet: &mut Encoder<'_, S>, now: u64) {
        if self.default_clock() == self.base {
            return;
        }
        let scaled = self.units(now);
        let clocks = [
            Some((self.base, now, None)),
            self.is_incremental
                .then_some((INCREMENTAL, scaled, Some(true))),
            (self.unit != 1).then_some((SCALED, scaled, Some(false))),
        ];
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

    fn absolute_clock(&self) -> u32 {
        if self.unit == 1 { self.base } else { SCALED }
    }

    /// Converts to units. The branch avoids the division, which is slow and rarely needed.
    #[inline]
    fn units(&self, time: u64) -> u64 {
        if self.unit == 1 {
            time
        } else {
            time / self.unit
        }
    }
}
