//! Readings of the kernel's clocks.

use rustix::time::{ClockId, clock_gettime};

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// Time since boot including suspend, nanoseconds: the default clock of a trace.
pub(crate) fn boottime_ns() -> u64 {
    now_ns(ClockId::Boottime)
}

/// Time since 1970, nanoseconds.
pub(crate) fn realtime_ns() -> u64 {
    now_ns(ClockId::Realtime)
}

/// Monotonic time in nanoseconds: the clock periods are aligned to.
pub(crate) fn monotonic_ns() -> u64 {
    now_ns(ClockId::Monotonic)
}
