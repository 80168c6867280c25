//! The fields the service adds to each packet.

use rustc_hash::FxHashMap;

use crate::buffer::{Identity, Loss, Packet, ProducerId, WriterId};

/// Most bytes the fields can take: 11 + 6 + 12 + 7 + 7 is 43.
const MAX_BYTES: usize = 48;

/// The service's word about a packet: who wrote it, and what is missing before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trusted {
    /// What is known of the sender.
    pub identity: Identity,
    /// Number of the sequence within the session; see [`SequenceIds`].
    pub sequence_id: u32,
    /// What is missing before it.
    pub loss: Loss,
}

impl Trusted {
    /// The fields, encoded. They are put behind the producer's, so that they win over any of the same
    /// number.
    pub fn encode(&self) -> TrustedFields {
        let mut fields = TrustedFields {
            bytes: [0; MAX_BYTES],
            len: 0,
        };
        // int32 in the schema, so what does not fit is negative and sign-extended.
        fields.field(3, i64::from(self.identity.uid as i32) as u64);
        fields.field(10, self.sequence_id.into());
        if let Some(pid) = self.identity.pid {
            fields.field(79, i64::from(pid) as u64);
        }
        if self.identity.machine_id != 0 {
            fields.field(98, self.identity.machine_id.into());
        }
        if !self.loss.is_none() {
            fields.field(42, self.loss.bits().into());
        }
        fields
    }
}

/// A few encoded fields, without an allocation.
#[derive(Debug, Clone, Copy)]
pub struct TrustedFields {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl TrustedFields {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn field(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number) << 3);
        self.varint(value);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }
}

/// Numbers the packet sequences of a session: 2, 3, ... in order of first use. 1 is the service's
/// own. A number is never used for another writer.
#[derive(Debug, Clone, Default)]
pub struct SequenceIds {
    by_writer: FxHashMap<(u32, ProducerId, WriterId), u32>,
}

impl SequenceIds {
    /// The number of packets the service writes itself.
    pub const SERVICE: u32 = 1;

    /// The number of a writer.
    pub fn id(&mut self, machine_id: u32, producer: ProducerId, writer: WriterId) -> u32 {
        // Machines times 2^32 writers might wrap it in theory only.
        let next = (self.by_writer.len() as u32).wrapping_add(Self::SERVICE + 1);
        *self
            .by_writer
            .entry((machine_id, producer, writer))
            .or_insert(next)
    }

    /// What the service says of a packet.
    pub fn trusted(&mut self, packet: &Packet<'_>) -> Trusted {
        Trusted {
            identity: packet.identity,
            sequence_id: self.id(packet.identity.machine_id, packet.producer, packet.writer),
            loss: packet.loss,
        }
    }
}
