//! Limits on the state that producers can make the service keep.

use crate::event::Peer;
use crate::packet::WRITERS_PER_USER;

/// Limits on the state that producers can make the service keep. Upstream sets none of them.
///
/// A user is everyone with the same user id on this machine. Producers on other machines count as
/// one user, since their user ids are not vouched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// The number of data sources that one producer may register. Further ones are refused with an
    /// error.
    pub data_sources_per_producer: usize,
    /// The number of data sources that all producers of one user may register together.
    pub data_sources_per_user: usize,
    /// The size of all descriptors of one producer, in bytes.
    pub descriptor_bytes_per_producer: usize,
    /// The size of the descriptors of all producers of one user, in bytes.
    pub descriptor_bytes_per_user: usize,
    /// The shared memory of all producers of one user, in bytes. Further producers get the smallest
    /// possible size, and memory that they bring is not used.
    pub shared_memory_per_user: u64,
    /// The number of trigger activations by one user that take effect in 24 hours. Further requests
    /// are rejected.
    pub triggers_per_user: usize,
    /// The number of writers of one user's producers whose sequence numbers a session remembers.
    /// Beyond it, the oldest writers get new numbers when they continue, and the trace reports a
    /// loss.
    pub sequences_per_user: usize,
    /// The number of commands kept for a producer that does not fetch them. Beyond it, the producer
    /// is disconnected.
    pub pending_commands: usize,
    /// The size of these commands, in bytes.
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

/// The user whose quota a producer uses: a user of this machine, or all users of other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct User(Option<u32>);

impl User {
    pub(crate) fn of(peer: &Peer) -> Self {
        let vouched_for = peer.machine_id == 0 && peer.can_share_memory;
        Self(vouched_for.then_some(peer.uid))
    }
}
