//! Packets that go to a function instead of shared memory.
//!
//! Such a writer never has a chunk, so everything here is off the usual path.

use std::fmt;

use ferretto_wire::{Encoder, redundant_length};

use super::{ChunkSink, HOLE, LengthField};
use crate::writer::TraceWriter;

/// Takes whole packets, encoded, on the thread that writes them.
pub type Deliver = Box<dyn FnMut(&[u8]) + Send>;

/// Field of TracePacket that tells sequences apart.
const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;

/// What a writer keeps whose packets go to a function.
pub(super) struct Local {
    packet: Vec<u8>,
    sequence: u32,
    deliver: Deliver,
}

impl Local {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    /// Passes the packet on, unless it is empty.
    #[cold]
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
    fn local(sequence: u32, deliver: Deliver) -> Self {
        let mut sink = Self::null();
        sink.local = Some(Box::new(Local {
            packet: Vec::new(),
            sequence,
            deliver,
        }));
        sink
    }

    /// Leaves room for the length of a nested message, if this is a local writer.
    #[cold]
    pub(super) fn open_local(&mut self) -> LengthField {
        let Some(local) = &mut self.local else {
            return LengthField::Nowhere;
        };
        local.append(&[0; HOLE]);
        LengthField::Local(local.packet.len() - HOLE)
    }

    /// Fills in the length of a nested message.
    #[cold]
    pub(super) fn close_local(&mut self, at: usize, length: u32) {
        let local = self.local.as_mut();
        if let Some(place) = local.and_then(|local| local.packet.get_mut(at..at + HOLE)) {
            place.copy_from_slice(&redundant_length(length));
        }
    }
}

impl TraceWriter {
    /// A writer whose packets are passed to `deliver`, whole and as soon as they end, with `sequence` as their
    /// `trusted_packet_sequence_id`. Packets written by address are discarded.
    pub fn local(sequence: u32, deliver: Deliver) -> Self {
        Self {
            sink: ChunkSink::local(sequence, deliver),
        }
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}
