//! A lock that its holder can take again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A lock that is locked and unlocked by different function calls of a program, which may nest.
#[derive(Debug, Default)]
pub(crate) struct Reentrant {
    holder: Mutex<Holder>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Holder {
    /// 0 if the lock is free.
    thread: usize,
    times: usize,
}

impl Reentrant {
    pub(crate) const fn new() -> Self {
        Self {
            holder: Mutex::new(Holder {
                thread: 0,
                times: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// Takes the lock, waiting for other threads.
    pub(crate) fn lock(&self) {
        let this = this_thread();
        let mut holder = self.holder();
        while holder.thread != 0 && holder.thread != this {
            holder = self
                .freed
                .wait(holder)
                .unwrap_or_else(PoisonError::into_inner);
        }
        holder.thread = this;
        holder.times += 1;
    }

    /// Releases the lock once; does nothing on a thread that does not hold it.
    pub(crate) fn unlock(&self) {
        let mut holder = self.holder();
        if holder.thread != this_thread() {
            return;
        }
        holder.times -= 1;
        if holder.times == 0 {
            holder.thread = 0;
            self.freed.notify_one();
        }
    }

    /// Takes the lock until the returned value is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.lock();
        Held(self)
    }

    fn holder(&self) -> MutexGuard<'_, Holder> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A held [`Reentrant`] lock.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Reentrant);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Returns a number that is unique among running threads.
fn this_thread() -> usize {
    thread_local! {
        static OWN: u8 = const { 0 };
    }
    OWN.with(|own| std::ptr::from_ref(own) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn only_other_threads_wait() {
        let lock = Reentrant::new();
        let entered = AtomicBool::new(false);
        std::thread::scope(|scope| {
            lock.lock();
            let inner = lock.hold();
            let other = scope.spawn(|| {
                // Not held here, so this has no effect.
                lock.unlock();
                lock.lock();
                entered.store(true, Ordering::Relaxed);
                lock.unlock();
            });
            drop(inner);
            assert!(!entered.load(Ordering::Relaxed));
            lock.unlock();
            other.join().unwrap();
        });
        assert!(entered.load(Ordering::Relaxed));
        drop(lock.hold());
    }
}
