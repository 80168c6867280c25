//! Timestamps and thread ids.

use ferretto_format::clock::BOOTTIME;
use ferretto_shm::Clock;

use crate::abi::{PerfettoDsTimestamp, PerfettoTeTimestamp};

/// Returns the boot time, in nanoseconds.
#[inline]
pub(crate) fn now() -> u64 {
    Clock::Boottime.now()
}

/// Returns the clock of [`PerfettoDsGetTimestamp`].
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoDsGetDefaultClockId() -> u32 {
    BOOTTIME
}

/// Returns the current time.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoDsGetTimestamp() -> PerfettoDsTimestamp {
    PerfettoDsTimestamp {
        clock_id: BOOTTIME,
        value: now(),
    }
}

/// Returns the current time.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoTeGetTimestamp() -> PerfettoTeTimestamp {
    PerfettoDsGetTimestamp()
}

/// Returns the kernel's id of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoGetThreadIdImpl() -> i32 {
    ferretto_shm::thread_id()
}
