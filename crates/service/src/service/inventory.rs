//! What a service holds at a moment.

use crate::service::Service;
use crate::session::Session;

/// Numbers of the things a service keeps for its clients. All of them are zero once nobody is connected,
/// no session is left and no file is being written.
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

impl Service {
    /// Counts what the service holds now. Takes time proportional to the number of connections,
    /// sessions and buffers.
    pub fn inventory(&self) -> Inventory {
        let of_sessions =
            |count: fn(&Session) -> usize| -> usize { self.sessions.values().map(count).sum() };
        Inventory {
            producers: self.producer_connections.len(),
            relays: self.relays.len(),
            consumers: self.consumers.len(),
            data_sources: self.registry.len(),
            writers: self.producers.values().map(|p| p.writers.len()).sum(),
            permissions: self.producers.values().map(|p| p.allowed.len()).sum(),
            copied_chunks: self.producers.values().map(|p| p.copied.len()).sum(),
            sequences: of_sessions(|session| session.sequences.len()),
            sessions: self.sessions.len(),
            instances: of_sessions(|session| session.instances.len()),
            buffers: self.buffers.len(),
            buffer_bytes: self.buffers.capacity(),
            flushes: of_sessions(|session| session.flushes.pending.len()),
            clones: of_sessions(|session| session.clones.len()),
            timers: self.timers.len(),
        }
    }
}
