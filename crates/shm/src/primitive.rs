//! The synchronisation primitives of this crate, in one place so that a model checker can stand in
//! for them.
//!
//! Compiled with `--cfg loom`, they are those of loom, and every access to a region is shown to it
//! as well: header words are its atomics, payload is memory that it watches for unordered accesses.

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

/// Time does not pass in a model: sleeping is letting others run.
#[cfg(loom)]
pub(crate) fn sleep(_: std::time::Duration) {
    yield_now();
}

/// Locks `mutex`, whether or not another thread panicked while it held the lock: everything guarded
/// here is consistent between any two statements.
#[cfg(not(tsan))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As above for the thread sanitizer, which sees only code compiled with it: not how the standard
/// library waits.
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

/// In cache lines of its own, as threads that write to it would slow down those that read its
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
