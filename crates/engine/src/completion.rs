//! Confirmations that may be given later, from any thread.

use ferretto_shm::fork::forks;

use super::queue::{self, Command, Done};

/// A confirmation, which is given when this value is dropped.
///
/// Data sources get one with a request to stop or to flush. A data source that needs longer keeps
/// it and drops it later on any thread; until then the service waits, but only a few seconds. An
/// instance continues to record until its stop is confirmed.
#[derive(Debug)]
#[must_use = "dropping it says that the work is done"]
pub struct Completion {
    done: Done,
    forks: u32,
}

impl Completion {
    pub(super) fn new(done: Done) -> Self {
        Self {
            done,
            forks: forks(),
        }
    }

    /// Confirms that the work is done.
    pub fn complete(self) {}
}

impl Drop for Completion {
    fn drop(&mut self) {
        // A forked child's copy has no effect.
        if self.forks == forks() {
            queue::send(Command::Done(self.done));
        }
    }
}
