//! The clock of all events of this process.

use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_engine::CounterClock;
use ferretto_format::clock::{BOOTTIME, MONOTONIC, MONOTONIC_RAW};
use ferretto_shm::Clock;

/// The internal number of the time stamp counter, which recordings show as `CLOCK_BOOTTIME`.
/// Upstream does not use this number.
const COUNTER: u32 = u32::MAX;

/// The number of the current clock.
static CLOCK: AtomicU32 = AtomicU32::new(BOOTTIME);

static TIME_STAMP_COUNTER: CounterClock = CounterClock::new();

/// A clock for the timestamps of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventClock {
    /// The time since boot (`CLOCK_BOOTTIME`).
    Boottime,
    /// The time since boot without suspends (`CLOCK_MONOTONIC`).
    Monotonic,
    /// The time since boot without suspends and corrections (`CLOCK_MONOTONIC_RAW`).
    MonotonicRaw,
    /// The time of [`Boottime`](Self::Boottime), computed from the processor's counter.
    /// Reading it takes less than half as long (11 ns instead of 30 ns in a measurement).
    /// Recordings show the same clock.
    ///
    /// For at least the first 10 ms, the clock itself is read, to measure the frequency of the
    /// counter. Afterwards, a thread that writes an event compares both every 250 µs, and the
    /// difference is made up for over the next interval. Later events use the clock itself. So
    /// times are within a microsecond of the clock, usually within 50 ns, also after a suspend and
    /// while the kernel corrects its clock as fast as `adjtimex` allows by frequency. Daemons that
    /// change the length of the kernel's tick instead (chrony, for a large difference) can cause an
    /// error of 25 µs, for a quarter of a millisecond. Time never goes backwards on a thread.
    ///
    /// On arm64, the counter is the one that the kernel's clocks are based on. A tick of it takes
    /// up to 50 ns, by which times may differ more.
    ///
    /// If the counter is not reliable, this is the same as [`Boottime`](Self::Boottime), which
    /// [`current`](Self::current) then returns: on other processors, if the frequency of the
    /// counter is not constant, and if the kernel's `current_clocksource`, below
    /// `/sys/devices/system/clocksource`, is not `tsc` (on arm64, `arch_sys_counter`) or cannot be
    /// read.
    #[default]
    Tsc,
}

impl EventClock {
    /// Returns the clock of this process's events.
    pub fn current() -> Self {
        match CLOCK.load(Ordering::Relaxed) {
            BOOTTIME => Self::Boottime,
            MONOTONIC => Self::Monotonic,
            MONOTONIC_RAW => Self::MonotonicRaw,
            _ => Self::Tsc,
        }
    }
}

/// Sets the clock of all further events of the process. Must be called before the first recording.
pub(crate) fn choose(clock: EventClock) {
    let number = match clock {
        EventClock::Monotonic => MONOTONIC,
        EventClock::MonotonicRaw => MONOTONIC_RAW,
        EventClock::Tsc if TIME_STAMP_COUNTER.start() => COUNTER,
        EventClock::Boottime | EventClock::Tsc => BOOTTIME,
    };
    CLOCK.store(number, Ordering::Relaxed);
}

/// Returns the number of the clock in recordings.
#[inline]
pub(super) fn number() -> u32 {
    match CLOCK.load(Ordering::Relaxed) {
        COUNTER => BOOTTIME,
        number => number,
    }
}

/// Returns the time, in nanoseconds.
#[inline(always)]
pub(super) fn now() -> u64 {
    match CLOCK.load(Ordering::Relaxed) {
        BOOTTIME => Clock::Boottime.now(),
        number => chosen(number),
    }
}

/// Returns the time of a clock.
#[inline(never)]
fn chosen(number: u32) -> u64 {
    match number {
        COUNTER => TIME_STAMP_COUNTER.now(),
        MONOTONIC => Clock::Monotonic.now(),
        _ => Clock::MonotonicRaw.now(),
    }
}

/// Returns the processor time of the calling thread, in nanoseconds.
pub(super) fn thread_time() -> u64 {
    Clock::ThreadTime.now()
}
