//! The machine's clocks.

use rustix::time::{ClockId, clock_gettime};

use crate::Clocks;

/// Reads the clocks the service works with, back to back. The time stamp counter is among them with feature `tsc`.
pub fn read() -> Clocks {
    Clocks {
        boottime: nanoseconds(ClockId::Boottime),
        monotonic: nanoseconds(ClockId::Monotonic),
        monotonic_coarse: nanoseconds(ClockId::MonotonicCoarse),
        monotonic_raw: nanoseconds(ClockId::MonotonicRaw),
        realtime: nanoseconds(ClockId::Realtime),
        realtime_coarse: nanoseconds(ClockId::RealtimeCoarse),
        tsc: cycles(),
    }
}

/// Reads the time stamp counter, where there is one and this crate can read it.
fn cycles() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", feature = "tsc"))]
    return Some(tick_counter::x86_64_tick_counter());
    #[cfg(not(all(target_arch = "x86_64", feature = "tsc")))]
    return None;
}

/// CPU time of all threads of this process since it began, in nanoseconds.
pub fn process_cpu() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Reads `CLOCK_BOOTTIME`, in nanoseconds.
pub fn boottime() -> u64 {
    nanoseconds(ClockId::Boottime)
}

/// Reads `CLOCK_MONOTONIC`, in nanoseconds.
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
