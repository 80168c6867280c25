//! Bounds on what producers may make the service keep.

use crate::event::Peer;
use crate::packet::WRITERS_PER_USER;

/// Bounds on the state that producers may make the service keep for them. Upstream sets none of
/// these bounds.
///
/// A user is everyone with the same user id on this machine; producers on other machines count as
/// one, as their user ids are not vouched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// Data sources one producer may offer at a time. More are refused with an error.
    pub data_sources_per_producer: usize,
    /// Data sources that all producers of one user may offer together.
    pub data_sources_per_user: usize,
    /// Size of all descriptors of one producer, in bytes.
    pub descriptor_bytes_per_producer: usize,
    /// Size of the descriptors of all producers of one user, in bytes.
    pub descriptor_bytes_per_user: usize,
    /// Shared memory that all producers of one user may have, in bytes. Those that come later get
    /// the least there is, and none that they bring is used.
    pub shared_memory_per_user: u64,
    /// Activations of triggers of all names by one user that are heeded in 24 hours. Requests with
    /// more are rejected.
    pub triggers_per_user: usize,
    /// Writers of all producers of one user whose sequence numbers a session remembers. If there
    /// are more, the oldest get new numbers when they go on, and a loss is told.
    pub sequences_per_user: usize,
    /// Commands kept for a producer that does not fetch them; it is disconnected then.
    pub pending_commands: usize,
    /// Size of those commands, in bytes.
    pub pending_command_bytes: usize,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            data_sources_per_producer: 4096,
            data_sources_per_user: 65_536,
            descriptor_bytes_per_producer: 16 << 20,
            descriptor_bytes_per_user: 64 << 20,
            shared_memory_per_user: 256 << 20,
            triggers_per_user: 16_384,
            sequences_per_user: WRITERS_PER_USER,
            pending_commands: 4096,
            pending_command_bytes: 4 << 20,
        }
    }
}

/// The owner of the quota a producer counts against: a user of this machine, or all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct User(Option<u32>);

impl User {
    pub(crate) fn of(peer: &Peer) -> Self {
        let vouched_for = peer.machine_id == 0 && peer.can_share_memory;
        Self(vouched_for.then_some(peer.uid))
    }
}
