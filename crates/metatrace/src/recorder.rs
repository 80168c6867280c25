//! The recorder for a program's threads.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_shm::{Clock, thread_id};

use crate::names::{Counter, Event};
use crate::ring::{Ring, What};

/// The recorder to which the threads of a program report their work.
pub struct Recorder {
    is_on: AtomicBool,
    /// The ring, created for the first recording.
    ring: OnceLock<Ring>,
    half_full: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("is_on", &self.is_on)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    pub(crate) fn new(half_full: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            is_on: AtomicBool::new(false),
            ring: OnceLock::new(),
            half_full,
        }
    }

    /// Returns true if a recording is active.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Starts an event, which ends when the returned value is dropped.
    #[inline]
    pub fn scope(&self, event: Event) -> Scope<'_> {
        Scope(self.is_on().then(|| Began {
            recorder: self,
            event,
            time: Clock::Boottime.now(),
        }))
    }

    /// Records the new value of a counter.
    #[inline]
    pub fn counter(&self, counter: Counter, value: impl FnOnce() -> i32) {
        if self.is_on() {
            let what = What::Counter(counter as u16, value());
            self.push(Clock::Boottime.now(), what);
        }
    }

    #[cold]
    fn push(&self, time: u64, what: What) {
        let thread = u32::try_from(thread_id()).unwrap_or(0);
        if self
            .ring
            .get()
            .is_some_and(|ring| ring.push(time, thread, what))
        {
            (self.half_full)();
        }
    }

    /// Enables or disables recording.
    pub(crate) fn switch(&self, on: bool) {
        if on {
            self.ring.get_or_init(Ring::new);
        }
        self.is_on.store(on, Ordering::Release);
    }

    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.ring.get()
    }
}

/// An event being recorded; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Scope<'a>(Option<Began<'a>>);

#[derive(Debug)]
struct Began<'a> {
    recorder: &'a Recorder,
    event: Event,
    time: u64,
}

impl Scope<'_> {
    /// Discards the event, because there was nothing to do.
    pub fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        if let Some(began) = self.0.take() {
            let duration = Clock::Boottime.now().saturating_sub(began.time);
            let what = What::Event(began.event as u16, duration);
            began.recorder.push(began.time, what);
        }
    }
}
