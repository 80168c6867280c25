//! The interface between the producer's writers and the owner of the connection.

use std::time::{Duration, Instant};

use crate::commit::Commit;
use crate::primitive::sleep;

/// The notifications of writers for the owner of the connection.
///
/// They are called from any thread, and never with a lock of this crate held.
pub trait Outlet: Send + Sync {
    /// Called when [`Arbiter::poll_output`](crate::Arbiter::poll_output) has new output; the owner
    /// should call it soon.
    fn wake(&self);

    /// Called when a writer waits for a free chunk or is flushed. If pending output can be sent on
    /// this thread, send it now: the thread may be the owner's own, or the last one that runs in
    /// this process. Must not block.
    fn flush_now(&self);

    /// Waits for at most this time, since a writer waits for a free chunk. If sending frees chunks
    /// and the connection is blocked at the moment, returns true as soon as the connection has
    /// accepted some output.
    fn pause(&self, at_most: Duration) -> bool {
        sleep(at_most);
        false
    }
}

/// The next action of the owner of the connection.
#[derive(Debug)]
pub enum Output {
    /// Send RegisterTraceWriter.
    Register {
        /// The new writer.
        writer_id: u16,
        /// The buffer of the writer.
        target_buffer: u16,
    },
    /// Send CommitData.
    Commit(Commit),
    /// Send UnregisterTraceWriter.
    Unregister {
        /// The writer that is gone.
        writer_id: u16,
    },
    /// Wait until this time, unless [`Outlet::wake`] is called before.
    WaitUntil(Instant),
    /// Wait until [`Outlet::wake`] is called.
    Idle,
}
