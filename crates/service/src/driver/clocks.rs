//! The machine's clocks.

use ferretto_shm::Clock;

use crate::Clocks;

/// Reads the clocks the service works with, back to back. The time stamp counter is among them with
/// feature `tsc`.
pub fn read() -> Clocks {
    Clocks {
        boottime: Clock::Boottime.now(),
        monotonic: Clock::Monotonic.now(),
        monotonic_coarse: Clock::MonotonicCoarse.now(),
        monotonic_raw: Clock::MonotonicRaw.now(),
        realtime: Clock::Realtime.now(),
        realtime_coarse: Clock::RealtimeCoarse.now(),
        tsc: ferretto_shm::counter().filter(|_| cfg!(feature = "tsc")),
    }
}

/// CPU time of all threads of this process since it began, in nanoseconds.
pub fn process_cpu() -> u64 {
    Clock::ProcessTime.now()
}

/// CPU time of this thread since it began, in nanoseconds.
pub fn thread_cpu() -> u64 {
    Clock::ThreadTime.now()
}

/// Reads `CLOCK_BOOTTIME`, in nanoseconds.
pub fn boottime() -> u64 {
    Clock::Boottime.now()
}

/// Reads `CLOCK_MONOTONIC`, in nanoseconds.
pub fn monotonic() -> u64 {
    Clock::Monotonic.now()
}
