//! The limits of the profiler itself.

use std::fs;
use std::time::Duration;

use crate::target::anonymous_kb;

/// The period of checks.
pub(crate) const PERIOD: Duration = Duration::from_secs(5);

/// Returns the memory use of this process in kilobytes.
pub(crate) fn memory_kb() -> u64 {
    anonymous_kb(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Returns the CPU time of this process.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
