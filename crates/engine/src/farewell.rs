//! The synchronisation of the thread that ends the process with the background thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::primitive::lock;

/// The state shared by the thread that ends the process and the background thread.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    /// Set if a recording is running, or should have been.
    is_busy: AtomicBool,
    /// The longest time for which the end of the process may be delayed, in milliseconds.
    patience: AtomicU64,
    is_leaving: AtomicBool,
    is_done: Mutex<bool>,
    done: Condvar,
}

impl Farewell {
    /// Sets if the end of the process has to wait.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Release);
    }

    /// Raises the longest delay of the process's end to that of a further service.
    pub(super) fn be_patient(&self, patience: Duration) {
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.patience.fetch_max(patience, Ordering::Relaxed);
    }

    /// Returns true if the process is ending.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    /// Reports that all data is sent.
    pub(super) fn done(&self) {
        *lock(&self.is_done) = true;
        self.done.notify_all();
    }

    /// Waits until all data is sent. `wake` wakes the background thread.
    pub(super) fn wait(&self, wake: impl FnOnce()) {
        let patience = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        if !self.is_busy.load(Ordering::Acquire) || patience.is_zero() {
            return;
        }
        self.is_leaving.store(true, Ordering::Release);
        wake();
        // This lock is only held for a moment, and by no thread that the end of the process can
        // interrupt.
        let is_done = lock(&self.is_done);
        let waited = self
            .done
            .wait_timeout_while(is_done, patience, |done| !*done);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
