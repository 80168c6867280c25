//! Readings of the kernel's clocks.

use rustix::time::{ClockId, clock_gettime};

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the time since boot including suspend, in nanoseconds: the default clock of a trace.
pub(crate) fn boottime_ns() -> u64 {
    now_ns(ClockId::Boottime)
}

/// Returns the time since 1970, in nanoseconds.
pub(crate) fn realtime_ns() -> u64 {
    now_ns(ClockId::Realtime)
}

/// Returns the monotonic time in nanoseconds, to which periods are aligned.
pub(crate) fn monotonic_ns() -> u64 {
    now_ns(ClockId::Monotonic)
}
