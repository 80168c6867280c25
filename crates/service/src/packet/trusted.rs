//! The fields that the service adds to each packet.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use ferretto_proto::fields::trace_packet;
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use crate::buffer::{Identity, Loss, Packet, ProducerId, WriterId};

/// The largest size of the fields, rounded up: 11 + 6 + 12 + 7 + 7 is 43.
const MAX_BYTES: usize = 48;

/// The fields of a packet that only the service may set: its writer, and the losses before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trusted {
    /// The sender, as far as it is known.
    pub identity: Identity,
    /// The number of the sequence in the session; see [`SequenceIds`].
    pub sequence_id: u32,
    /// The loss before the packet.
    pub loss: Loss,
}

impl Trusted {
    /// Encodes the fields. They are written after the producer's, so that they override fields with
    /// the same number.
    pub fn encode(&self) -> TrustedFields {
        let mut fields = TrustedFields {
            bytes: [0; MAX_BYTES],
            len: 0,
        };
        // The schema has int32, so that larger values are negative and sign-extended.
        fields.field(
            trace_packet::TRUSTED_UID,
            i64::from(self.identity.uid as i32) as u64,
        );
        fields.field(
            trace_packet::TRUSTED_PACKET_SEQUENCE_ID,
            self.sequence_id.into(),
        );
        if let Some(pid) = self.identity.pid {
            fields.field(trace_packet::TRUSTED_PID, i64::from(pid) as u64);
        }
        if self.identity.machine_id != 0 {
            fields.field(trace_packet::MACHINE_ID, self.identity.machine_id.into());
        }
        if !self.loss.is_none() {
            fields.field(
                trace_packet::PREVIOUS_PACKET_DROPPED,
                self.loss.bits().into(),
            );
        }
        fields
    }
}

/// A few encoded fields, without a heap allocation.
#[derive(Debug, Clone, Copy)]
pub struct TrustedFields {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl TrustedFields {
    /// Returns the encoded bytes.
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
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
    }
}

/// The default number of writers of one user with remembered ids: more than all threads of a large
/// machine.
pub(crate) const WRITERS_PER_USER: usize = 262_144;

/// The number of writers remembered for each user in addition.
const PER_USER: usize = 128;

/// A writer of a producer of a machine.
type Writer = (u32, ProducerId, WriterId);

/// Assigns the packet sequence ids of a session: 2, 3, ... in order of first use. 1 is the
/// service's own. An id is never assigned to another writer.
///
/// The number of writers per user is limited; beyond it, the writer that got its id first is
/// forgotten. If that writer continues, it gets another id, and its next packet reports a loss, so
/// that readers do not rely on the incremental state of the old sequence.
#[derive(Debug, Clone)]
pub struct SequenceIds {
    limit: usize,
    by_writer: FxHashMap<Writer, u32>,
    /// The writers by user; `None` is everyone on other machines.
    by_user: BTreeMap<Option<u32>, Owned>,
    /// The number of assigned ids.
    count: u32,
}

/// The writers of one user.
#[derive(Debug, Clone, Default)]
struct Owned {
    /// In the order of their ids.
    writers: VecDeque<Writer>,
    /// Set if writers were forgotten.
    overflowed: bool,
}

impl Default for SequenceIds {
    fn default() -> Self {
        Self::new(WRITERS_PER_USER)
    }
}

impl SequenceIds {
    /// Creates a generator that remembers the ids of this many writers of each user.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            by_writer: FxHashMap::default(),
            by_user: BTreeMap::new(),
            count: 0,
        }
    }

    /// The id of the service's own sequence.
    pub const SERVICE: u32 = 1;

    /// Returns the id of a writer.
    pub fn id(&mut self, identity: Identity, producer: ProducerId, writer: WriterId) -> u32 {
        self.sequence_id(identity, producer, writer).0
    }

    /// Returns the fields that the service adds to a packet.
    pub fn trusted(&mut self, packet: &Packet<'_>) -> Trusted {
        let (sequence_id, renewed) =
            self.sequence_id(packet.identity, packet.producer, packet.writer);
        let mut loss = packet.loss;
        if renewed {
            loss |= Loss::PRESENT;
        }
        if !loss.is_none() {
            // The field replaces the writer's own, whose reasons must not get lost.
            loss |= own_loss(packet);
        }
        Trusted {
            identity: packet.identity,
            sequence_id,
            loss,
        }
    }

    /// Returns the number of remembered ids.
    pub fn len(&self) -> usize {
        self.by_writer.len()
    }

    /// Returns true if no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.by_writer.is_empty()
    }

    /// Returns the memory of the table in bytes.
    pub(crate) fn memory(&self) -> u64 {
        // Tables grow by doubling. Each entry has key and id, and its key again in order.
        let (entry, key) = (size_of::<(Writer, u32)>() + 1, size_of::<Writer>());
        let queued = self.by_user.values().map(|owned| owned.writers.capacity());
        let table = self.by_writer.capacity() * 8 / 7;
        let queues = queued.sum::<usize>() * key + self.by_user.len() * PER_USER;
        (table * entry + queues) as u64
    }

    /// Returns the id of a writer, and true if it is new and the writer may have had another one.
    fn sequence_id(
        &mut self,
        identity: Identity,
        producer: ProducerId,
        writer: WriterId,
    ) -> (u32, bool) {
        let key = (identity.machine_id, producer, writer);
        match self.by_writer.entry(key) {
            Entry::Occupied(known) => return (*known.get(), false),
            Entry::Vacant(slot) => {
                // It could wrap only after 2^32 writers.
                self.count = self.count.wrapping_add(1);
                slot.insert(self.count.wrapping_add(Self::SERVICE));
            }
        }
        let vouched_for = identity.machine_id == 0 && identity.pid.is_some();
        let user = vouched_for.then_some(identity.uid);
        let owned = self.by_user.entry(user).or_default();
        owned.writers.push_back(key);
        let renewed = owned.overflowed;
        if owned.writers.len() > self.limit
            && let Some(oldest) = owned.writers.pop_front()
        {
            owned.overflowed = true;
            self.by_writer.remove(&oldest);
        }
        (self.count.wrapping_add(Self::SERVICE), renewed)
    }
}

/// Returns the loss before a packet as its writer reported it. Writers report it at the start of a
/// packet at the start of a chunk, so the first piece suffices.
fn own_loss(packet: &Packet<'_>) -> Loss {
    let beginning = packet.fragments().next().unwrap_or_default();
    let fields = Fields::new(beginning).map_while(Result::ok);
    let own = fields.filter(|field| field.number == trace_packet::PREVIOUS_PACKET_DROPPED);
    let bits = own.filter_map(|field| field.as_u32());
    Loss::from_bits(bits.fold(0, |all, bits| all | bits))
}
