//! Packets that go to a function instead of shared memory.
//!
//! Such a writer never has a chunk, so everything here is off the usual path.

use std::fmt;

use ferretto_wire::{Encoder, redundant_length};

use super::{ChunkSink, Destination};
use crate::chunk::WIDE;

/// Takes whole packets, encoded, on the thread that writes them.
pub type Deliver = Box<dyn FnMut(&[u8]) + Send>;

/// Field of TracePacket that tells sequences apart.
const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;

/// The packet in the making of a writer whose packets go to a function.
pub(super) struct Local {
    packet: Vec<u8>,
    sequence: u32,
    deliver: Deliver,
}

impl Local {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    /// Leaves room for the length of a nested message and returns where.
    pub(super) fn begin_length(&mut self) -> usize {
        self.append(&[0; WIDE]);
        self.packet.len() - WIDE
    }

    /// Fills in the length of a nested message.
    pub(super) fn end_length(&mut self, at: usize, length: u32) {
        if let Some(place) = self.packet.get_mut(at..at + WIDE) {
            place.copy_from_slice(&redundant_length(length));
        }
    }

    /// Passes the packet on, unless it is empty.
    pub(super) fn deliver(&mut self) {
        if self.packet.is_empty() {
            return;
        }
        // Taken, so that nothing is left of it should the function panic.
        let mut packet = std::mem::take(&mut self.packet);
        Encoder::new(&mut packet).varint(TRUSTED_PACKET_SEQUENCE_ID, self.sequence.into());
        (self.deliver)(&packet);
        packet.clear();
        self.packet = packet;
    }
}

impl ChunkSink {
    /// A sink whose packets are passed to `deliver`.
    pub(crate) fn local(sequence: u32, deliver: Deliver) -> Self {
        let mut sink = Self::null();
        sink.destination = Destination::Function(Box::new(Local {
            packet: Vec::new(),
            sequence,
            deliver,
        }));
        sink
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}
