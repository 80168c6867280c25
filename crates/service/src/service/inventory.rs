//! The objects that a service keeps, and the memory they need.

use ferretto_ipc::frame::MAX_FRAME_SIZE;

use super::Service;
use crate::session::Session;

/// The numbers of objects that a service keeps for its clients. All are zero once no client is
/// connected, no session is left and no file is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Connections to the producer socket, initialised or not.
    pub producers: usize,
    /// The connections of relays among them.
    pub relays: usize,
    /// Connections to the consumer socket.
    pub consumers: usize,
    /// Registered data sources.
    pub data_sources: usize,
    /// Registered trace writers.
    pub writers: usize,
    /// Permissions of producers to write into a buffer.
    pub permissions: usize,
    /// Chunks that were scraped from shared memory but not committed yet.
    pub copied_chunks: usize,
    /// Packet sequences that sessions have numbered.
    pub sequences: usize,
    /// Sessions, including freed ones whose files are still being written.
    pub sessions: usize,
    /// Data source instances of sessions.
    pub instances: usize,
    /// Trace buffers.
    pub buffers: usize,
    /// The capacity of all trace buffers in bytes.
    pub buffer_bytes: u64,
    /// Flushes that some producers have not confirmed.
    pub flushes: usize,
    /// Sessions and departed producers whose shared memory is still being scraped.
    pub scrapes: usize,
    /// Clones in progress.
    pub clones: usize,
    /// Pending deadlines.
    pub timers: usize,
}

/// The largest memory of an object besides its counted bytes: a producer, a data source instance
/// and the like.
const PER_OBJECT: u64 = 1024;
/// The largest memory of an unfinished walk over shared memory, as a part of that memory: an entry
/// for each of the smallest chunks.
const WALKED: u64 = 8;
/// The largest memory of a table entry that consists of numbers.
const PER_ENTRY: u64 = 128;
/// The largest memory of a waiting request.
const PER_REQUEST: u64 = MAX_FRAME_SIZE as u64 * DECODED;
/// The largest memory of a decoded message as a multiple of its size: for a message of many tiny
/// unknown fields.
const DECODED: u64 = 32;
/// The largest memory of a session besides its buffers: a batch in transit to the file or the
/// compressor, events, the filter.
const PER_SESSION: u64 = 4 << 20;
/// The largest memory of the results of a config as a multiple of its size: above all, compiled
/// patterns.
const COMPILED: u64 = 1024;

impl Service {
    /// Counts the objects of the service. Takes time proportional to the number of connections,
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
            scrapes: cx.scrapes.len(),
            clones: of_sessions(Session::pending_clones),
            timers: cx.timers.len(),
        }
    }

    /// Returns an upper bound of the memory of buffers and of clients' state in bytes, without
    /// shared memory. A process that has allocated much more has a leak.
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
            + (cx.scrapes.len() as u64).saturating_mul(cx.producers.largest_memory() / WALKED)
            + cx.consumers.deferred() as u64 * PER_REQUEST
            + cx.relays.bytes() as u64
    }

    /// Returns the size of the memory shared with producers, in bytes.
    pub fn memory_shared(&self) -> u64 {
        self.cx.producers.holdings().shared_bytes
    }
}
