//! The end of the process: written packets reach the service, or are counted as lost.
//!
//! The service itself scrapes the packets in shared memory. This module handles the lengths that
//! long packets get afterwards, and losses that were not reported yet.

use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_shm::at_exit;

use super::queue;

/// Makes the end of this process and of its forked children wait until pending data is sent.
pub(super) fn prepare() {
    static IS_PREPARED: AtomicBool = AtomicBool::new(false);
    if !IS_PREPARED.swap(true, Ordering::Relaxed) {
        at_exit(leave);
    }
}

extern "C" fn leave() {
    // A forked child that does not trace has no queue. The background thread must not wait for
    // itself.
    if let Some(queue) = queue::queue().filter(|queue| !queue.is_served_here()) {
        queue.farewell.wait(|| queue.wake());
    }
}
