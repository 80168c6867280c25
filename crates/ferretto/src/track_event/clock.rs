//! The clock of all events of this process.

use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_shm::Clock;

/// The clocks there are, by upstream's numbers (`BuiltinClock`).
const MONOTONIC: u32 = 3;
const MONOTONIC_RAW: u32 = 5;
const BOOTTIME: u32 = 6;

/// The number of the clock in use.
static CLOCK: AtomicU32 = AtomicU32::new(BOOTTIME);

/// A clock that events can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventClock {
    /// The time since the machine was started (`CLOCK_BOOTTIME`).
    #[default]
    Boottime,
    /// The same without the times the machine slept (`CLOCK_MONOTONIC`).
    Monotonic,
    /// The same without corrections (`CLOCK_MONOTONIC_RAW`).
    MonotonicRaw,
}

/// Has all events of the process from now on timed by this clock. To be called before anything is recorded.
pub(crate) fn choose(clock: EventClock) {
    let number = match clock {
        EventClock::Boottime => BOOTTIME,
        EventClock::Monotonic => MONOTONIC,
        EventClock::MonotonicRaw => MONOTONIC_RAW,
    };
    CLOCK.store(number, Ordering::Relaxed);
}

/// The number of the clock in recordings.
#[inline]
pub(super) fn number() -> u32 {
    CLOCK.load(Ordering::Relaxed)
}

/// The time, in nanoseconds.
#[inline]
pub(super) fn now() -> u64 {
    match number() {
        BOOTTIME => Clock::Boottime.now(),
        MONOTONIC => Clock::Monotonic.now(),
        _ => Clock::MonotonicRaw.now(),
    }
}

/// The processor time that the calling thread has taken, in nanoseconds.
pub(super) fn thread_time() -> u64 {
    Clock::ThreadTime.now()
}
