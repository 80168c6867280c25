//! The synchronisation primitives of this crate, in one place so that a model checker can stand in for them.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread::{sleep, yield_now};

/// Locks `mutex`, whether or not another thread panicked while it held the lock: everything guarded here is
/// consistent between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
