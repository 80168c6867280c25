//! Packets that go to a function instead of shared memory.
//!
//! Such a writer never has a chunk, so that all of this is off the fast path.

use std::fmt;

use ferretto_wire::{Encoder, redundant_length};

use super::{ChunkSink, Destination};
use crate::chunk::WIDE;

/// A function that takes whole encoded packets, on the thread that writes them.
pub type Deliver = Box<dyn FnMut(&[u8]) + Send>;

/// The field of TracePacket that identifies the sequence.
const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;

/// The current packet of a writer whose packets go to a function.
pub(super) struct Local {
    packet: Vec<u8>,
    sequence: u32,
    deliver: Deliver,
}

impl Local {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    /// Reserves the length of a nested message, and returns its offset.
    pub(super) fn begin_length(&mut self) -> usize {
        self.append(&[0; WIDE]);
        self.packet.len() - WIDE
    }

    /// Fills in the length of a nested message.
    pub(super) fn end_length(&mut self, at: usize, length: u32) {
        if let Some(bytes) = self.packet.get_mut(at..at + WIDE) {
            bytes.copy_from_slice(&redundant_length(length));
        }
    }

    /// Passes the packet to the function, unless it is empty.
    pub(super) fn deliver(&mut self) {
        if self.packet.is_empty() {
            return;
        }
        // Taken first, so that it is gone if the function panics.
        let mut packet = std::mem::take(&mut self.packet);
        Encoder::new(&mut packet).varint(TRUSTED_PACKET_SEQUENCE_ID, self.sequence.into());
        (self.deliver)(&packet);
        packet.clear();
        self.packet = packet;
    }
}

impl ChunkSink {
    /// Creates a sink that passes its packets to `deliver`.
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
