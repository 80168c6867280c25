//! Packets with their meaning in their sequences, for readers that need no interned data.

use ferretto_format::sequence::{
    Clocks, Fault, PacketContext, PacketHeader, SequenceReader, SequenceState,
};
use ferretto_format::track_event::{
    EventDefaults, EventState, EventTrack, MissingBase, TimeFault, TrackEvent,
};
use ferretto_proto::fields::trace_packet;
use ferretto_wire::Field;

use crate::limits::Budget;

/// The content of a packet: the number of its field, and the encoded message.
pub(crate) type Content<'a> = (u32, &'a [u8]);

/// A track event in its sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequenceEvent<'a> {
    pub(crate) encoded: TrackEvent<'a>,
    /// The uuid of its track, if the event or its sequence has one.
    pub(crate) uuid: Option<u64>,
    /// The track of its slice or state.
    pub(crate) track: EventTrack,
    /// Set if only this sequence writes to the track.
    pub(crate) is_on_own_track: bool,
    /// Set if its time is a difference without a base.
    pub(crate) missing: Option<MissingBase>,
}

/// A packet that was read with the state of its sequence.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PacketState<'a> {
    pub(crate) fault: Option<Fault>,
    /// The time of the packet, or that of its track event.
    pub(crate) time: Option<Result<u64, Fault>>,
    /// The clock of the time.
    pub(crate) clock: u32,
    /// The track event in the packet.
    pub(crate) event: Option<SequenceEvent<'a>>,
}

impl<'a> SequenceEvent<'a> {
    fn new(encoded: TrackEvent<'a>, defaults: &EventDefaults, sequence: u32) -> Self {
        Self {
            encoded,
            uuid: encoded.track.or(defaults.track),
            track: encoded.track(defaults, sequence),
            // Other sequences do not write to the track of a thread, which is the default.
            is_on_own_track: encoded
                .track
                .is_none_or(|uuid| Some(uuid) == defaults.track),
            missing: None,
        }
    }
}

impl<'a> PacketState<'a> {
    /// Reads the content of a packet in its sequence.
    #[inline]
    pub(crate) fn read(
        header: &PacketHeader<'_>,
        content: Option<Content<'a>>,
        context: PacketContext<'_, EventState>,
    ) -> Self {
        let mut packet = Self {
            fault: None,
            time: context.time,
            clock: context.clock,
            event: None,
        };
        let sample_time = Some(context.sample_time());
        let state = context.state;
        match content {
            Some((trace_packet::TRACK_EVENT, bytes)) => {
                let encoded = TrackEvent::read(bytes);
                let mut event = SequenceEvent::new(encoded, &state.defaults, header.sequence);
                let time = state.time(&encoded, packet.time, header.machine, context.clocks);
                packet.time = match time {
                    Ok(time) => time.map(Ok),
                    Err(TimeFault::Clock(fault)) => Some(Err(fault)),
                    Err(TimeFault::Base(missing)) => {
                        event.missing = Some(missing);
                        None
                    }
                };
                packet.event = Some(event);
            }
            Some((trace_packet::PERF_SAMPLE | trace_packet::STACK_SAMPLE, _)) => {
                packet.time = sample_time;
            }
            Some((number, bytes)) if context.is_valid => state.describe(number, bytes),
            _ => {}
        }
        packet
    }

    /// Returns the state of a packet that was not read.
    pub(crate) fn faulty<S: SequenceState>(
        fault: Fault,
        header: &PacketHeader<'_>,
        sequences: &SequenceReader<S>,
    ) -> Self {
        let default = sequences.clocks().default_clock(header.machine);
        Self {
            fault: Some(fault),
            time: sequences.shared_time(header),
            clock: header.clock.filter(|clock| *clock != 0).unwrap_or(default),
            event: None,
        }
    }

    /// Returns true if the content of the packet is shown.
    pub(crate) fn is_usable(&self) -> bool {
        self.fault.is_none_or(|fault| fault == Fault::NoSequence)
    }
}

/// Reads the packets of a trace with the state of their sequences.
#[derive(Debug)]
pub(crate) struct Walk {
    sequences: SequenceReader<EventState>,
}

impl Walk {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            sequences: SequenceReader::new(budget),
        }
    }

    /// Reads one encoded `TracePacket`, and passes it to `visit` if it is well-formed.
    pub(crate) fn packet(
        &mut self,
        packet: &[u8],
        visit: impl FnOnce(&PacketHeader<'_>, Option<Content<'_>>, PacketState<'_>, &Clocks),
    ) {
        let mut content = None;
        let header = PacketHeader::read(packet, |part: Field<'_>| {
            if let Some(bytes) = part.as_bytes() {
                content = Some((part.number, bytes));
            }
        });
        let Some(header) = header else { return };
        let state = match self.sequences.read(&header, &mut |_| {}) {
            Ok(Some(context)) => PacketState::read(&header, content, context),
            Ok(None) => PacketState::default(),
            Err(fault) => PacketState::faulty(fault, &header, &self.sequences),
        };
        visit(&header, content, state, self.sequences.clocks());
    }
}
