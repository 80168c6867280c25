//! The synchronisation primitives of this crate, in one place so that a model checker can replace
//! them.
//!
//! With `--cfg loom` they are those of loom. It also sees every access to a region: header words
//! are its atomics, and payload is memory that it checks for unordered accesses.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::thread::{sleep, yield_now};

pub(crate) use std::sync::{Arc, PoisonError};

#[cfg(loom)]
pub(crate) use loom::{hint::spin_loop, thread::yield_now};

/// Lets other threads run, since time does not pass in a model.
#[cfg(loom)]
pub(crate) fn sleep(_: std::time::Duration) {
    yield_now();
}

/// Locks `mutex` even if another thread panicked while it held the lock: all guarded values are
/// consistent between any two statements.
#[cfg(not(tsan))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `mutex` for the thread sanitizer, which only sees code compiled with it, and not how the
/// standard library waits.
#[cfg(tsan)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    use std::sync::TryLockError;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(error)) => return PoisonError::into_inner(error),
            Err(TryLockError::WouldBlock) => yield_now(),
        }
    }
}

/// A value in cache lines of its own, so that writes to it do not slow down reads of its
/// neighbours.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
