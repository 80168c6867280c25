//! The fields of a packet that concern its sequence.

use ferretto_proto::fields::trace_packet as field;
use ferretto_wire::{Field, Fields};

use crate::Loss;
use crate::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};

/// The fields that matter in packets of all kinds.
#[derive(Debug, Default)]
pub struct PacketHeader<'a> {
    /// The raw timestamp.
    pub timestamp: Option<u64>,
    /// The id of the timestamp's clock, if it is explicit.
    pub clock: Option<u32>,
    /// The sequence id; 0 is none.
    pub sequence: u32,
    /// Set if there is a sequence id, even if it is 0.
    pub has_sequence: bool,
    /// The machine id; 0 is the host.
    pub machine: u32,
    /// The user id of the writer, as seen by the service.
    pub uid: Option<u32>,
    /// The process id of the writer, as seen by the service.
    pub pid: Option<i32>,
    /// The reasons why preceding packets are missing.
    pub loss: Loss,
    /// Set if the service knows of no preceding packets.
    pub is_first: bool,
    /// Set if incremental state is cleared.
    pub is_cleared: bool,
    /// Set if the packet relies on incremental state.
    pub needs_state: bool,
    /// The encoded `InternedData`.
    pub interned: Option<&'a [u8]>,
    /// The encoded `TracePacketDefaults`.
    pub defaults: Option<&'a [u8]>,
    /// The encoded `ClockSnapshot`.
    pub snapshot: Option<&'a [u8]>,
}

impl<'a> PacketHeader<'a> {
    /// Parses an encoded `TracePacket`, and passes all other fields to `content`. `None` if the
    /// packet is malformed.
    #[inline]
    pub fn read(bytes: &'a [u8], content: impl FnMut(Field<'a>)) -> Option<Self> {
        let (header, is_whole) = Self::read_prefix(bytes, content);
        is_whole.then_some(header)
    }

    /// Parses the header of an encoded `TracePacket` up to the first malformed field, and passes
    /// all other fields to `content`. Returns true if the whole packet is well-formed.
    #[inline]
    pub fn read_prefix(bytes: &'a [u8], mut content: impl FnMut(Field<'a>)) -> (Self, bool) {
        let mut header = Self::default();
        let mut flags = 0;
        let is_whole = Fields::walk(bytes, |part| {
            let number = || part.as_u64().unwrap_or(0);
            match part.number {
                field::TIMESTAMP => header.timestamp = part.as_u64(),
                field::TIMESTAMP_CLOCK_ID => header.clock = part.as_u32(),
                field::TRUSTED_PACKET_SEQUENCE_ID => {
                    header.sequence = number() as u32;
                    header.has_sequence = true;
                }
                field::TRUSTED_UID => header.uid = part.as_u32(),
                field::TRUSTED_PID => header.pid = part.as_u64().map(|pid| pid as i32),
                field::MACHINE_ID => header.machine = number() as u32,
                field::INCREMENTAL_STATE_CLEARED => header.is_cleared |= number() != 0,
                field::SEQUENCE_FLAGS => flags = number(),
                // A service may append its own field after the writer's, without the writer's
                // reasons.
                field::PREVIOUS_PACKET_DROPPED => header.loss |= Loss::from_bits(number() as u32),
                field::FIRST_PACKET_ON_SEQUENCE => header.is_first = number() != 0,
                field::INTERNED_DATA => header.interned = part.as_bytes(),
                field::TRACE_PACKET_DEFAULTS => header.defaults = part.as_bytes(),
                field::CLOCK_SNAPSHOT => header.snapshot = part.as_bytes(),
                _ => content(part),
            }
        });
        header.is_cleared |= flags & INCREMENTAL_STATE_CLEARED != 0;
        header.needs_state = flags & NEEDS_INCREMENTAL_STATE != 0;
        (header, is_whole)
    }

    /// Returns true if the packet affects later packets of its sequence, or relies on earlier ones.
    pub fn concerns_sequence(&self) -> bool {
        self.is_cleared || self.needs_state || self.interned.is_some() || self.defaults.is_some()
    }
}
