//! What the service needs memory for.

use ferretto_ipc::frame::MAX_FRAME_SIZE;
use ferretto_proto::Message as _;

use crate::consumer::Consumer;
use crate::relay::Relay;
use crate::service::Service;
use crate::session::Session;

/// What a thing that is counted takes at most, besides its bytes: a producer, a data source taking part in a
/// session and the like.
const PER_OBJECT: u64 = 1024;
/// What an entry of a table takes at most that is only numbers.
const PER_ENTRY: u64 = 128;
/// What a request that waits takes at most.
const PER_REQUEST: u64 = MAX_FRAME_SIZE as u64 * DECODED;
/// How many times its size a decoded message takes at most: one of many tiny unknown fields.
const DECODED: u64 = 32;
/// What a session has besides its buffers: a batch on its way to file or compressor, events, filter.
const PER_SESSION: u64 = 4 << 20;
/// How many times its size what was made of a config takes: above all, compiled patterns.
const COMPILED: u64 = 1024;

impl Service {
    /// Bytes that buffers and what clients made the service keep account for, at most, without memory that is shared
    /// with them. A process that has allocated much more than that has a leak.
    pub fn memory_needed(&self) -> u64 {
        let holdings = self.inventory();
        let objects = holdings.producers
            + holdings.consumers
            + holdings.data_sources
            + holdings.writers
            + holdings.permissions
            + holdings.relays
            + holdings.instances
            + holdings.timers;
        let entries = holdings.copied_chunks + self.trigger_history.len() + self.cooldown.len();
        let deferred: usize = self.consumers.values().map(Consumer::deferred).sum();
        let of_relays: usize = self.relays.values().map(Relay::bytes).sum();
        let unsent = self.producers.values().map(|p| p.outbox.bytes() as u64);
        self.buffers.memory_needed()
            + self
                .sessions
                .values()
                .map(Session::memory_needed)
                .sum::<u64>()
            + (self.registry.bytes() + unsent.sum::<u64>()) * DECODED
            + objects as u64 * PER_OBJECT
            + entries as u64 * PER_ENTRY
            + deferred as u64 * PER_REQUEST
            + of_relays as u64
    }

    /// Bytes of memory that are shared with producers.
    pub fn memory_shared(&self) -> u64 {
        self.producers.values().map(|p| p.memory.size()).sum()
    }
}

impl Session {
    /// The same for a session, without its buffers.
    fn memory_needed(&self) -> u64 {
        let copies = self.clones.values().map(|clone| clone.memory_needed());
        let config = u64::from(self.config.encoded_len());
        PER_SESSION
            + config * COMPILED
            + copies.sum::<u64>()
            + self.sequences.memory()
            + self.senders.len() as u64 * PER_ENTRY
            + self.triggers.bytes() as u64
    }
}
