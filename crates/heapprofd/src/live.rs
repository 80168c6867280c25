//! The bytes that are allocated now, for whoever shows the progress of a recording.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are allocated and not freed, in all processes and instances, as far as they are
/// sampled.
#[derive(Debug, Default)]
pub struct Live {
    bytes: AtomicU64,
    clients: AtomicU64,
}

impl Live {
    /// Bytes that are allocated.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Clients that have been recorded.
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
