//! Live allocation counts, for progress displays.

use std::sync::atomic::{AtomicU64, Ordering};

/// The sampled live bytes of all processes and instances.
#[derive(Debug, Default)]
pub struct Live {
    bytes: AtomicU64,
    clients: AtomicU64,
}

impl Live {
    /// Returns the number of live bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of recorded clients.
    pub fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    pub(crate) fn connected(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn changed(&self, before: u64, after: u64) {
        self.bytes
            .fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }
}
