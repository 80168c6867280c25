//! A lock that a thread may take again while it has it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Taken and given back by different function calls of a program, which may nest.
#[derive(Debug, Default)]
pub(crate) struct Reentrant {
    holder: Mutex<Holder>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Holder {
    /// 0: nobody.
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

    /// Waits until no other thread has it.
    pub(crate) fn lock(&self) {
        let me = this_thread();
        let mut holder = self.holder();
        while holder.thread != 0 && holder.thread != me {
            holder = self
                .freed
                .wait(holder)
                .unwrap_or_else(PoisonError::into_inner);
        }
        holder.thread = me;
        holder.times += 1;
    }

    /// Gives it back once; does nothing on a thread that does not have it.
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

    /// Takes it for as long as the returned value lives.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.lock();
        Held(self)
    }

    fn holder(&self) -> MutexGuard<'_, Holder> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`Reentrant`] lock that is held.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Reentrant);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// A number that no other thread has at the same time.
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
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
                // Not held here: changes nothing.
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
