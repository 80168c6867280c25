//! Synchronizes the users of the session with its changes.
//!
//! A thread enters in the middle of `malloc` and must not block. So the session changes only while
//! the gate is closed and no thread is inside; otherwise the change is not attempted.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering, fence};

/// The gate of the session.
#[derive(Debug)]
pub(super) struct Gate {
    /// The process in the session; 0 while the gate is closed.
    owner: AtomicI32,
    /// The number of threads inside.
    users: AtomicU32,
    /// Set while a thread changes the session.
    changes: AtomicBool,
}

impl Gate {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self {
            owner: AtomicI32::new(0),
            users: AtomicU32::new(0),
            changes: AtomicBool::new(false),
        }
    }

    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self {
            owner: AtomicI32::new(0),
            users: AtomicU32::new(0),
            changes: AtomicBool::new(false),
        }
    }

    /// Enters the session of this process. Returns false if there is none. Calls `process` only if
    /// the gate is open.
    pub(super) fn enter(&self, process: impl FnOnce() -> i32) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        if owner == 0 || owner != process() {
            return false;
        }
        self.users.fetch_add(1, Ordering::AcqRel);
        // A thread that changes the session closes the gate before it checks for users.
        fence(Ordering::SeqCst);
        let is_open = self.owner.load(Ordering::Acquire) != 0;
        if !is_open {
            self.leave();
        }
        is_open
    }

    /// Leaves the session.
    pub(super) fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    /// Closes the gate and stays inside to end the session. Returns false if it is closed already.
    pub(super) fn close(&self) -> bool {
        self.users.fetch_add(1, Ordering::AcqRel);
        let was_open = self.owner.swap(0, Ordering::AcqRel) != 0;
        if !was_open {
            self.leave();
        }
        was_open
    }

    /// Begins a change. Returns false if the gate is open, or another thread is inside or changes
    /// the session.
    pub(super) fn begin_change(&self) -> bool {
        if self.changes.swap(true, Ordering::AcqRel) {
            return false;
        }
        let is_closed = self.owner.load(Ordering::Acquire) == 0;
        fence(Ordering::SeqCst);
        let is_unused = is_closed && self.users.load(Ordering::Acquire) == 0;
        if !is_unused {
            self.end_change();
        }
        is_unused
    }

    /// Returns true if the gate is closed but a thread is still inside.
    #[cfg(not(loom))]
    pub(super) fn is_closed_and_used(&self) -> bool {
        self.owner.load(Ordering::Acquire) == 0 && self.users.load(Ordering::Acquire) != 0
    }

    /// Ends a change.
    pub(super) fn end_change(&self) {
        self.changes.store(false, Ordering::Release);
    }

    /// Opens the gate for a process, during a change.
    pub(super) fn open(&self, process: i32) {
        self.owner.store(process, Ordering::Release);
    }

    /// Resets the gate in a process with one thread. Returns true if it was open.
    #[cfg(not(loom))]
    pub(super) fn forget(&self) -> bool {
        self.users.store(0, Ordering::Relaxed);
        self.changes.store(false, Ordering::Relaxed);
        self.owner.swap(0, Ordering::AcqRel) != 0
    }
}

#[cfg(all(loom, test))]
mod model {
    use super::Gate;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Shared {
        gate: Gate,
        /// The session's number; 0 during a change, which a user must not see.
        session: UnsafeCell<u32>,
    }

    // SAFETY: loom detects uses of the session during a change.
    unsafe impl Sync for Shared {}

    fn opened() -> Arc<Shared> {
        let shared = Shared {
            gate: Gate::new(),
            session: UnsafeCell::new(1),
        };
        shared.gate.open(7);
        Arc::new(shared)
    }

    fn check(shared: &Shared) {
        // SAFETY: threads inside the gate only read.
        let seen = shared.session.with(|session| unsafe { *session });
        assert_ne!(seen, 0);
    }

    fn record(shared: &Shared) {
        if shared.gate.enter(|| 7) {
            check(shared);
            shared.gate.leave();
        }
    }

    fn end(shared: &Shared) {
        if shared.gate.close() {
            check(shared);
            shared.gate.leave();
        }
    }

    fn begin(shared: &Shared) {
        if shared.gate.begin_change() {
            shared.session.with_mut(|session| {
                // SAFETY: no other thread uses it during a change, which loom checks.
                unsafe {
                    *session = 0;
                    *session = 2;
                }
            });
            shared.gate.open(7);
            shared.gate.end_change();
        }
    }

    /// Ends the session and begins the next while these functions run in other threads.
    fn change_during(others: &'static [fn(&Shared)]) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = opened();
            let start = |work: &'static fn(&Shared)| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&shared))
            };
            let threads: std::vec::Vec<_> = others.iter().map(start).collect();
            end(&shared);
            begin(&shared);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn the_session_does_not_change_while_a_thread_records() {
        change_during(&[record]);
    }

    #[test]
    fn only_one_thread_ends_and_one_begins_the_session() {
        change_during(&[end, begin]);
    }
}
