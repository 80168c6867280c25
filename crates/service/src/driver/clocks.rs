//! The machine's clocks.

use ferretto_shm::Clock;

use crate::Clocks;

/// Reads the clocks that the service uses in a row. The feature `tsc` adds the time stamp counter.
pub fn read() -> Clocks {
    Clocks {
        boottime: Clock::Boottime.now(),
        monotonic: Clock::Monotonic.now(),
        monotonic_coarse: Clock::MonotonicCoarse.now(),
        monotonic_raw: Clock::MonotonicRaw.now(),
        realtime: Clock::Realtime.now(),
        realtime_coarse: Clock::RealtimeCoarse.now(),
        tsc: ferretto_shm::time_stamp_counter().filter(|_| cfg!(feature = "tsc")),
    }
}

/// Returns the CPU time of all threads of this process, in nanoseconds.
pub fn process_cpu() -> u64 {
    Clock::ProcessTime.now()
}

/// Returns the CPU time of this thread, in nanoseconds.
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
