//! A lock with a timeout of about a second.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

const SPINS: u32 = 200;
const YIELDS: u32 = 50;
const SLEEPS: u32 = 1000;

/// A lock. After a timeout it is poisoned and cannot be taken any more.
#[derive(Debug)]
pub(super) struct Lock(AtomicU32);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const POISONED: u32 = 2;

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Held<'a>(&'a Lock);

impl Lock {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    fn try_once(&self) -> Option<Held<'_>> {
        let taken = self
            .0
            .compare_exchange_weak(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Held(self))
    }

    /// Locks. Returns `None` after the timeout, or if the lock is poisoned.
    pub(super) fn lock(&self) -> Option<Held<'_>> {
        for _ in 0..SPINS {
            if let Some(held) = self.try_once() {
                return Some(held);
            }
            core::hint::spin_loop();
        }
        for round in 0..YIELDS + SLEEPS {
            if let Some(held) = self.try_once() {
                return Some(held);
            }
            match self.0.load(Ordering::Relaxed) {
                POISONED => return None,
                // SAFETY: the function has no arguments.
                _ if round < YIELDS => _ = unsafe { sys::sched_yield() },
                _ => sys::sleep_us(1000),
            }
        }
        self.0.store(POISONED, Ordering::Relaxed);
        None
    }

    /// Unlocks it in the child of a fork, whose only thread does not hold the lock.
    pub(super) fn reset(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // A poisoned lock stays poisoned.
        let lock = &self.0.0;
        let _ = lock.compare_exchange(TAKEN, FREE, Ordering::Release, Ordering::Relaxed);
    }
}
