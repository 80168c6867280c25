//! The interface between the writers' side and the owner of the connection.

use std::time::{Duration, Instant};

use crate::commit::Commit;
use crate::primitive::sleep;

/// The channel from the writers' side to the owner of the connection.
///
/// Called from any thread, never with a lock of this crate held.
pub trait Outlet: Send + Sync {
    /// [`Arbiter::poll_output`](crate::Arbiter::poll_output) has something new to say; the owner
    /// should call it soon.
    fn wake(&self);

    /// A writer waits for a free chunk, or is to be flushed. If what is pending can be sent from
    /// this very thread, do so now: it may be the owner's own, or the last one that runs in this
    /// process. Must not block.
    fn flush_now(&self);

    /// Lets time pass for a writer that waits for a free chunk, at most this much. If chunks become
    /// free by what is sent, and the connection takes nothing at the moment, returns as soon as it
    /// took something, with true.
    fn pause(&self, at_most: Duration) -> bool {
        sleep(at_most);
        false
    }
}

/// The next thing that the owner of the connection has to do.
#[derive(Debug)]
pub enum Output {
    /// Send RegisterTraceWriter.
    Register {
        /// The new writer.
        writer_id: u16,
        /// The buffer it writes to.
        target_buffer: u16,
    },
    /// Send CommitData.
    Commit(Commit),
    /// Send UnregisterTraceWriter.
    Unregister {
        /// The writer that is gone.
        writer_id: u16,
    },
    /// Nothing before this time, unless [`Outlet::wake`] is called.
    WaitUntil(Instant),
    /// Nothing before [`Outlet::wake`] is called.
    Idle,
}
