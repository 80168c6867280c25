//! Timestamps and thread ids.

use ferretto_engine::CounterClock;
use ferretto_format::clock::BOOTTIME;

use crate::abi::{PerfettoDsTimestamp, PerfettoTeTimestamp};

/// The clock of all events.
static CLOCK: CounterClock = CounterClock::new();

/// Starts to compute the time from the processor's counter, where it is reliable: reading it takes
/// less than half as long as reading the clock.
pub(crate) fn start() {
    CLOCK.start();
}

/// Returns the boot time, in nanoseconds.
#[inline]
pub(crate) fn now() -> u64 {
    CLOCK.now()
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
