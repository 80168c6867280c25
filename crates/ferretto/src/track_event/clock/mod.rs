//! The clock of all events of this process.

mod counter;
mod line;

use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_format::clock::{BOOTTIME, MONOTONIC, MONOTONIC_RAW};
use ferretto_shm::Clock;

use self::counter::Counter;

/// The counter that shows the time of clock 6. Upstream has no such number.
const COUNTER: u32 = u32::MAX;

/// The number of the clock in use.
static CLOCK: AtomicU32 = AtomicU32::new(BOOTTIME);

static TIME_STAMP_COUNTER: Counter = Counter::new();

/// A clock that events can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventClock {
    /// The time since the machine was started (`CLOCK_BOOTTIME`).
    Boottime,
    /// The same without the times the machine slept (`CLOCK_MONOTONIC`).
    Monotonic,
    /// The same without corrections (`CLOCK_MONOTONIC_RAW`).
    MonotonicRaw,
    /// The time of [`Boottime`](Self::Boottime), read from the processor's time stamp counter,
    /// which takes less than half as long (11 ns instead of 30 where that was measured). In
    /// recordings it is the same clock.
    ///
    /// At first the clock itself is read, at least for 10 ms, to learn how fast the counter is.
    /// Then both are compared each 250 µs, by whichever thread writes an event, and the difference
    /// is made up for until the next time; an event that comes later than that is timed by the
    /// clock itself. So times are within a microsecond of the clock, usually within 50 ns, also
    /// after the machine has slept and while the kernel corrects its clock as fast as `adjtimex`
    /// lets frequencies be changed. Daemons that change the length of the kernel's tick instead
    /// (chrony, to make up for a large difference) can make it 25 µs, for a quarter of a
    /// millisecond. On each thread time does not go back.
    ///
    /// This is [`Boottime`](Self::Boottime) if the counter cannot be relied on, and
    /// [`current`](Self::current) says so: on processors other than x86-64, if the counter does not
    /// go at one speed always, and if `current_clocksource` of the kernel, below
    /// `/sys/devices/system/clocksource`, is not `tsc` or cannot be read.
    #[default]
    Tsc,
}

impl EventClock {
    /// The clock that the events of this process have.
    pub fn current() -> Self {
        match CLOCK.load(Ordering::Relaxed) {
            BOOTTIME => Self::Boottime,
            MONOTONIC => Self::Monotonic,
            MONOTONIC_RAW => Self::MonotonicRaw,
            _ => Self::Tsc,
        }
    }
}

/// Has all events of the process from now on timed by this clock. To be called before anything is
/// recorded.
pub(crate) fn choose(clock: EventClock) {
    let number = match clock {
        EventClock::Monotonic => MONOTONIC,
        EventClock::MonotonicRaw => MONOTONIC_RAW,
        EventClock::Tsc if TIME_STAMP_COUNTER.start() => COUNTER,
        EventClock::Boottime | EventClock::Tsc => BOOTTIME,
    };
    CLOCK.store(number, Ordering::Relaxed);
}

/// The number of the clock in recordings.
#[inline]
pub(super) fn number() -> u32 {
    match CLOCK.load(Ordering::Relaxed) {
        COUNTER => BOOTTIME,
        number => number,
    }
}

/// The time, in nanoseconds.
#[inline(always)]
pub(super) fn now() -> u64 {
    match CLOCK.load(Ordering::Relaxed) {
        BOOTTIME => Clock::Boottime.now(),
        number => chosen(number),
    }
}

/// The time by a clock that was chosen.
#[inline(never)]
fn chosen(number: u32) -> u64 {
    match number {
        COUNTER => TIME_STAMP_COUNTER.now(),
        MONOTONIC => Clock::Monotonic.now(),
        _ => Clock::MonotonicRaw.now(),
    }
}

/// The processor time that the calling thread has taken, in nanoseconds.
pub(super) fn thread_time() -> u64 {
    Clock::ThreadTime.now()
}
