//! The agreement of the thread that ends the process and the background thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::primitive::lock;

/// The state shared by the thread that ends the process and the background thread.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    /// Something is being recorded, or should have been.
    is_busy: AtomicBool,
    /// The longest time that the process may be held up, in milliseconds.
    patience: AtomicU64,
    is_leaving: AtomicBool,
    is_done: Mutex<bool>,
    done: Condvar,
}

impl Farewell {
    /// Notes that there is something to wait for at the end, or nothing any more.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Release);
    }

    /// The process is held up for at most as long as the service that it is most patient with may
    /// take.
    pub(super) fn be_patient(&self, patience: Duration) {
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.patience.fetch_max(patience, Ordering::Relaxed);
    }

    /// Returns true if the process ends.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    /// All is handed over.
    pub(super) fn done(&self) {
        *lock(&self.is_done) = true;
        self.done.notify_all();
    }

    /// Waits until all is handed over. `wake` has the background thread look.
    pub(super) fn wait(&self, wake: impl FnOnce()) {
        let patience = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        if !self.is_busy.load(Ordering::Acquire) || patience.is_zero() {
            return;
        }
        self.is_leaving.store(true, Ordering::Release);
        wake();
        // Nobody holds this lock for longer than a moment, and nobody who can be interrupted by the
        // end of the process.
        let is_done = lock(&self.is_done);
        let waited = self
            .done
            .wait_timeout_while(is_done, patience, |done| !*done);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
