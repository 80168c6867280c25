//! The rules for writers of packet sequences.

use ferretto_proto::fields::{trace_packet, trace_packet_defaults};
use ferretto_wire::{Encoder, Sink};

use crate::incremental::IncrementalState;
use crate::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use crate::{SequenceClocks, clock};

/// The writer's state of a packet sequence: the validity of its incremental state, and the encoding
/// of its times.
///
/// Before each packet a writer checks [`must_restart`](Self::must_restart). If it is true, it
/// forgets its interned data and descriptors, and writes the first packet of the sequence again:
/// [`restart`](Self::restart), then [`restarted`](Self::restarted). All other packets start with
/// [`begin_packet`](Self::begin_packet).
#[derive(Clone, Copy, Debug)]
pub struct SequenceWriter {
    state: IncrementalState,
    clocks: SequenceClocks,
}

impl SequenceWriter {
    /// Creates a sequence without packets, given the writer's number of lost packets.
    pub fn new(clocks: SequenceClocks, drop_count: u64) -> Self {
        Self {
            state: IncrementalState::new(drop_count),
            clocks,
        }
    }

    /// Returns the clocks of the sequence.
    #[inline]
    pub fn clocks(&self) -> &SequenceClocks {
        &self.clocks
    }

    /// Voids the incremental state: the next packet restarts the sequence.
    pub fn clear(&mut self) {
        self.state.clear();
    }

    /// Returns true if the incremental state was cleared, or packets have been lost since the
    /// restart.
    #[inline]
    pub fn is_void(&self, drop_count: u64) -> bool {
        self.state.is_void(drop_count)
    }

    /// Returns true if the sequence must restart before its next packet, given the writer's numbers
    /// of lost packets and of bytes: the state is void, or so much data followed it that it may
    /// have been overwritten.
    #[inline]
    pub fn must_restart(&self, drop_count: u64, written: u64) -> bool {
        self.state.must_restart(drop_count, written)
    }

    /// Returns the writer's number of bytes at which the sequence restarts by itself.
    #[inline]
    pub fn renew_at(&self) -> u64 {
        self.state.renew_at()
    }

    /// Sets the base of the next timestamp difference to `now`, for writers that encode the
    /// timestamp themselves.
    #[inline(always)]
    pub fn advance(&mut self, now: u64) {
        self.clocks.advance(now);
    }

    /// Starts a packet that relies on earlier ones: writes a time on the clock with this id, and
    /// the flag.
    #[inline]
    pub fn begin_packet<S: Sink>(&mut self, packet: &mut Encoder<'_, S>, clock: u32, time: u64) {
        self.clocks.write_timestamp(packet, clock, time);
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    }

    /// Writes the first packet of the sequence: a time, the flag, the defaults of all following
    /// packets and the relation of the clocks. `defaults` appends further fields of
    /// `TracePacketDefaults`; `counts` are the writer's numbers of lost packets and of bytes. Must
    /// be followed by [`restarted`](Self::restarted) once the packet is written.
    pub fn restart<S: Sink>(
        &mut self,
        packet: &mut Encoder<'_, S>,
        counts: (u64, u64),
        start: Start,
        defaults: impl FnOnce(&mut Encoder<'_, S>),
    ) {
        self.state.restart(counts.0, counts.1);
        self.clocks.restart(start.now);
        self.clocks.write_timestamp(packet, start.clock, start.time);
        packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |out| {
            let clock = self.clocks.default_clock();
            out.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, clock.into());
            defaults(out);
        });
        self.clocks.write_snapshot(packet, start.now);
    }

    /// Ends a restart; `is_dropping` is true if the writer drops packets now. Returns false if the
    /// first packet was dropped: further packets would be useless, and the next event tries again.
    pub fn restarted(&mut self, is_dropping: bool) -> bool {
        self.state.restarted(is_dropping)
    }
}

/// The time of a restart.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The base of timestamp differences, on the base clock of the sequence.
    pub now: u64,
    /// The id of the clock of the first packet's timestamp.
    pub clock: u32,
    /// The first packet's timestamp on that clock.
    pub time: u64,
}

impl Start {
    /// Creates a restart whose first packet has the time of the sequence.
    pub fn at(now: u64) -> Self {
        Self {
            now,
            clock: clock::INCREMENTAL,
            time: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_wire::{Fields, encode};

    use super::*;
    use crate::clock::{BOOTTIME, MONOTONIC};

    fn numbers(packet: &[u8], field: u32) -> Vec<u64> {
        let fields = Fields::new(packet).map(Result::unwrap);
        let fields = fields.filter(|found| found.number == field);
        fields.filter_map(|found| found.as_u64()).collect()
    }

    #[test]
    fn a_sequence_restarts_until_its_first_packet_fits() {
        let mut sequence = SequenceWriter::new(SequenceClocks::new(1, true, BOOTTIME), 0);
        assert!(sequence.must_restart(0, 0));
        let first = encode(|packet| sequence.restart(packet, (0, 0), Start::at(500), |_| {}));
        assert_eq!(numbers(&first, trace_packet::SEQUENCE_FLAGS), [1]);
        assert_eq!(numbers(&first, trace_packet::TIMESTAMP), [0]);
        assert!(!sequence.restarted(true), "it was dropped");
        assert!(sequence.must_restart(0, 0));
        let again = encode(|packet| sequence.restart(packet, (0, 0), Start::at(500), |_| {}));
        assert_eq!(first, again);
        assert!(sequence.restarted(false));
        assert!(!sequence.must_restart(0, 0));
        let next = encode(|packet| sequence.begin_packet(packet, BOOTTIME, 700));
        assert_eq!(numbers(&next, trace_packet::SEQUENCE_FLAGS), [2]);
    }

    #[test]
    fn only_other_clocks_than_the_default_are_written() {
        let mut sequence = SequenceWriter::new(SequenceClocks::new(1, false, MONOTONIC), 0);
        let first = encode(|packet| {
            let start = Start {
                now: 0,
                clock: BOOTTIME,
                time: 5,
            };
            sequence.restart(packet, (0, 0), start, |defaults| defaults.varint(99, 3));
        });
        let clocks = numbers(&first, trace_packet::TIMESTAMP_CLOCK_ID);
        assert_eq!(clocks, [u64::from(BOOTTIME)]);
        let defaults = Fields::find(trace_packet::TRACE_PACKET_DEFAULTS, &first).unwrap();
        let defaults = defaults.as_bytes().unwrap();
        let clock = numbers(defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID);
        assert_eq!(
            (clock, numbers(defaults, 99)),
            (vec![u64::from(MONOTONIC)], vec![3])
        );
        let next = encode(|packet| sequence.begin_packet(packet, MONOTONIC, 7));
        assert_eq!(numbers(&next, trace_packet::TIMESTAMP), [7]);
        assert!(numbers(&next, trace_packet::TIMESTAMP_CLOCK_ID).is_empty());
    }
}
