//! Answers that may come later, from any thread.

use ferretto_shm::fork::forks;

use super::queue::{self, Command, Done};

/// An answer that is given when this is dropped.
///
/// Data sources get one with a request to stop or to flush. One that needs longer keeps it, to drop
/// it later from any thread; until then the service waits, a few seconds at most. An instance goes
/// on recording until its stop is completed.
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

    /// Says that the work is done.
    pub fn complete(self) {}
}

impl Drop for Completion {
    fn drop(&mut self) {
        // A forked child's copy means nothing.
        if self.forks == forks() {
            queue::send(Command::Done(self.done));
        }
    }
}
