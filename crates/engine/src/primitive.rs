//! The synchronisation primitives shared by threads and the background thread, together so that
//! a model checker can replace them.

#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// Locks `mutex` even if another thread panicked while it held the lock: all guarded values are
/// consistent between any two statements.
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// [`lock`] for state that a model checks.
#[cfg(not(loom))]
pub(super) use lock as lock_shown;

#[cfg(loom)]
pub(super) fn lock_shown<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
