//! The things a service holds at a moment, and the memory they need.

use ferretto_ipc::frame::MAX_FRAME_SIZE;

use super::Service;
use crate::session::Session;

/// Numbers of the things a service keeps for its clients. All of them are zero once nobody is
/// connected, no session is left and no file is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Connections to the producer socket, initialised or not.
    pub producers: usize,
    /// Those of them that are of relays.
    pub relays: usize,
    /// Connections to the consumer socket.
    pub consumers: usize,
    /// Registered data sources.
    pub data_sources: usize,
    /// Trace writers producers told of.
    pub writers: usize,
    /// Permissions of producers to write into a buffer.
    pub permissions: usize,
    /// Chunks that were copied out of shared memory and are still to be committed.
    pub copied_chunks: usize,
    /// Packet sequences that sessions have numbered.
    pub sequences: usize,
    /// Sessions, with those freed whose files are still being written.
    pub sessions: usize,
    /// Data sources taking part in sessions.
    pub instances: usize,
    /// Trace buffers.
    pub buffers: usize,
    /// Their capacity in bytes, together.
    pub buffer_bytes: u64,
    /// Flushes some producers have not confirmed.
    pub flushes: usize,
    /// Clones being made.
    pub clones: usize,
    /// Deadlines.
    pub timers: usize,
}

/// The most that a thing takes which is counted, besides its bytes: a producer, a data source
/// taking part in a session and the like.
const PER_OBJECT: u64 = 1024;
/// The most that an entry of a table takes which is only numbers.
const PER_ENTRY: u64 = 128;
/// The most that a request takes which waits.
const PER_REQUEST: u64 = MAX_FRAME_SIZE as u64 * DECODED;
/// The most that a decoded message takes, as a multiple of its size: one of many tiny unknown
/// fields.
const DECODED: u64 = 32;
/// The most that a session has besides its buffers: a batch on its way to file or compressor,
/// events, filter.
const PER_SESSION: u64 = 4 << 20;
/// The most memory that the results of a config take, as a multiple of its size: above all,
/// compiled patterns.
const COMPILED: u64 = 1024;

impl Service {
    /// Counts the service's present state. Takes time proportional to the number of connections,
    /// sessions and buffers.
    pub fn inventory(&self) -> Inventory {
        let cx = &self.cx;
        let of_sessions =
            |count: fn(&Session) -> usize| -> usize { self.sessions.iter().map(count).sum() };
        let of_producers = cx.producers.holdings();
        Inventory {
            producers: of_producers.connections,
            relays: cx.relays.len(),
            consumers: cx.consumers.len(),
            data_sources: cx.registry.len(),
            writers: of_producers.writers,
            permissions: of_producers.permissions,
            copied_chunks: of_producers.copied_chunks,
            sequences: of_sessions(Session::sequence_count),
            sessions: self.sessions.len(),
            instances: of_sessions(Session::instance_count),
            buffers: cx.buffers.len(),
            buffer_bytes: cx.buffers.capacity(),
            flushes: of_sessions(Session::pending_flushes),
            clones: of_sessions(Session::pending_clones),
            timers: cx.timers.len(),
        }
    }

    /// Returns the number of bytes of buffers and of clients' state, at most, without memory that
    /// is shared with them. A process that has allocated much more than that has a leak.
    pub fn memory_needed(&self) -> u64 {
        let cx = &self.cx;
        let holdings = self.inventory();
        let objects = holdings.producers
            + holdings.consumers
            + holdings.data_sources
            + holdings.writers
            + holdings.permissions
            + holdings.relays
            + holdings.instances
            + holdings.timers;
        let entries = holdings.copied_chunks + self.trigger_history.len() + self.cooldowns.len();
        let unsent = cx.producers.holdings().unsent_bytes;
        let of_sessions = self.sessions.iter().map(|session| {
            PER_SESSION + session.config_bytes() * COMPILED + session.table_bytes(PER_ENTRY)
        });
        cx.buffers.memory_needed()
            + of_sessions.sum::<u64>()
            + (cx.registry.bytes() + unsent) * DECODED
            + objects as u64 * PER_OBJECT
            + entries as u64 * PER_ENTRY
            + cx.consumers.deferred() as u64 * PER_REQUEST
            + cx.relays.bytes() as u64
    }

    /// Returns how many bytes of memory are shared with producers.
    pub fn memory_shared(&self) -> u64 {
        self.cx.producers.holdings().shared_bytes
    }
}
