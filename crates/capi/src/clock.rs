//! Times and threads.

use ferretto_format::clock::BOOTTIME;
use rustix::time::{ClockId, clock_gettime};

use crate::abi::{PerfettoDsTimestamp, PerfettoTeTimestamp};

/// Nanoseconds since the machine was started.
#[inline]
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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
