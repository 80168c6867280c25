//! Aborts a process whose loop hangs, from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use ferretto_service::driver::clocks::monotonic;

/// Notifies a watcher thread when turns of a loop begin and end. The thread sleeps while there are
/// no turns.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    watcher: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    /// The start of the current turn (`CLOCK_MONOTONIC`, nanoseconds), 0 between turns.
    busy_since: AtomicU64,
    turns: AtomicU64,
    /// Set while the watcher sleeps.
    asleep: AtomicBool,
    over: AtomicBool,
}

impl Heartbeat {
    /// Creates a watcher that calls `hangs` on another thread once a turn has lasted for `limit`
    /// nanoseconds, or up to a third more. `None` if the thread cannot be started.
    pub(crate) fn new(limit: u64, hangs: impl FnOnce() + Send + 'static) -> Option<Self> {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let builder = thread::Builder::new().name("watchdog".into());
        let watcher = builder.spawn(move || watched.watch(limit, hangs)).ok()?;
        Some(Self {
            shared,
            watcher: watcher.thread().clone(),
        })
    }

    /// Begins a turn. `now` is `CLOCK_MONOTONIC`.
    pub(crate) fn begin_turn(&self, now: u64) {
        self.shared.busy_since.store(now, Ordering::SeqCst);
        self.shared.turns.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.swap(false, Ordering::SeqCst) {
            self.watcher.unpark();
        }
    }

    pub(crate) fn end_turn(&self) {
        self.shared.busy_since.store(0, Ordering::SeqCst);
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.watcher.unpark();
    }
}

impl Shared {
    fn watch(&self, limit: u64, hangs: impl FnOnce()) {
        let period = Duration::from_nanos((limit / 6).max(1));
        let mut late_turn = None;
        loop {
            let turns = self.turns.load(Ordering::SeqCst);
            thread::park_timeout(period);
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let since = self.busy_since.load(Ordering::SeqCst);
            let is_late = since != 0 && monotonic().saturating_sub(since) >= limit;
            // A process that was stopped and continued is late, but gets another period to finish
            // its turn.
            let was_late = late_turn.replace(if is_late { since } else { 0 });
            if is_late && was_late == Some(since) {
                return hangs();
            }
            if since == 0 && self.turns.load(Ordering::SeqCst) == turns {
                self.sleep(turns);
            }
        }
    }

    /// Sleeps until the next turn, or the end.
    fn sleep(&self, turns: u64) {
        self.asleep.store(true, Ordering::SeqCst);
        while self.turns.load(Ordering::SeqCst) == turns && !self.over.load(Ordering::SeqCst) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_turn_that_does_not_end_is_reported() {
        let (hung, receiver) = mpsc::channel();
        let heartbeat = Heartbeat::new(1000, move || hung.send(()).unwrap()).unwrap();
        // The watcher may already be asleep.
        while !heartbeat.shared.asleep.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        heartbeat.begin_turn(monotonic());
        receiver.recv().unwrap();
    }

    #[test]
    fn turns_that_end_and_idle_loops_are_not_reported() {
        let (hung, receiver) = mpsc::channel();
        let hour = 3_600_000_000_000;
        let heartbeat = Heartbeat::new(hour, move || hung.send(()).unwrap()).unwrap();
        for _ in 0..1000 {
            heartbeat.begin_turn(monotonic());
            heartbeat.end_turn();
        }
        drop(heartbeat);
        // The watcher ends without a call.
        assert!(receiver.recv().is_err());
    }
}
