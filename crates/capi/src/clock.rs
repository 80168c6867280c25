//! Times and threads.

use ferretto_format::clock::BOOTTIME;
use ferretto_shm::Clock;

use crate::abi::{PerfettoDsTimestamp, PerfettoTeTimestamp};

/// Nanoseconds since the machine was started.
#[inline]
pub(crate) fn now() -> u64 {
    Clock::Boottime.now()
}

/// The clock of [`PerfettoDsGetTimestamp`].
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoDsGetDefaultClockId() -> u32 {
    BOOTTIME
}

/// The time.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoDsGetTimestamp() -> PerfettoDsTimestamp {
    PerfettoDsTimestamp {
        clock_id: BOOTTIME,
        value: now(),
    }
}

/// The time.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoTeGetTimestamp() -> PerfettoTeTimestamp {
    PerfettoDsGetTimestamp()
}

/// The kernel's number of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoGetThreadIdImpl() -> i32 {
    ferretto_shm::thread_id()
}
