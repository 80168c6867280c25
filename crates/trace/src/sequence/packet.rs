//! What a packet says of the sequence it is in.

use ferretto_proto::fields::trace_packet as field;
use ferretto_wire::{Field, Fields};

/// Flags of a packet.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// The fields of a packet that matter whatever is in it.
#[derive(Debug, Default)]
pub(crate) struct Header<'a> {
    pub(crate) timestamp: Option<u64>,
    pub(crate) clock: Option<u32>,
    /// The writer; 0 is none.
    pub(crate) sequence: u32,
    pub(crate) machine: u32,
    pub(crate) is_cleared: bool,
    pub(crate) needs_state: bool,
    pub(crate) is_after_loss: bool,
    pub(crate) interned: Option<&'a [u8]>,
    pub(crate) defaults: Option<&'a [u8]>,
    pub(crate) snapshot: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// Reads an encoded `TracePacket`, and gives all other fields to `content`. `None` if the packet is not well-formed.
    pub(crate) fn read(bytes: &'a [u8], mut content: impl FnMut(Field<'a>)) -> Option<Self> {
        let mut header = Self::default();
        let mut flags = 0;
        for part in Fields::new(bytes) {
            let part = part.ok()?;
            let number = || part.as_u64().unwrap_or(0);
            match part.number {
                field::TIMESTAMP => header.timestamp = part.as_u64(),
                field::TIMESTAMP_CLOCK_ID => header.clock = part.as_u32(),
                field::TRUSTED_PACKET_SEQUENCE_ID => header.sequence = number() as u32,
                field::MACHINE_ID => header.machine = number() as u32,
                field::INCREMENTAL_STATE_CLEARED => header.is_cleared |= number() != 0,
                field::SEQUENCE_FLAGS => flags = number(),
                field::PREVIOUS_PACKET_DROPPED => header.is_after_loss = number() != 0,
                field::INTERNED_DATA => header.interned = part.as_bytes(),
                field::TRACE_PACKET_DEFAULTS => header.defaults = part.as_bytes(),
                field::CLOCK_SNAPSHOT => header.snapshot = part.as_bytes(),
                _ => content(part),
            }
        }
        header.is_cleared |= flags & CLEARED != 0;
        header.needs_state = flags & NEEDS_STATE != 0;
        Some(header)
    }

    /// Whether it says something for later packets of its sequence, or relies on what earlier ones said.
    pub(crate) fn concerns_sequence(&self) -> bool {
        self.is_cleared || self.needs_state || self.interned.is_some() || self.defaults.is_some()
    }
}
