//! What the service needs memory for.

use crate::service::Service;

impl Service {
    /// Bytes that buffers, shared memory and what producers registered account for, at most. A process
    /// that uses much more than that has a leak.
    pub fn memory_needed(&self) -> u64 {
        let shared = self
            .producers
            .values()
            .map(|producer| producer.memory.size());
        let copies = self.sessions.values().flat_map(|s| s.clones.values());
        self.buffers.memory_needed()
            + shared.sum::<u64>()
            + copies.map(|clone| clone.memory_needed()).sum::<u64>()
            + self.registry.bytes()
    }
}
