//! Readings of the machine's clocks, taken by the driver of the service.

/// One reading of each clock the service uses, in nanoseconds unless it says otherwise.
///
/// The driver reads all of them back to back before it hands a batch of events to the service; the
/// service itself never asks for the time. `CLOCK_BOOTTIME` must not go backwards from one call to
/// the next, nor may `CLOCK_MONOTONIC`; the others may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`: time since boot, including suspend. All timestamps in traces use it.
    pub boottime: u64,
    /// `CLOCK_MONOTONIC`: time since boot, excluding suspend. Periods are aligned to it.
    pub monotonic: u64,
    /// `CLOCK_MONOTONIC_COARSE`.
    pub monotonic_coarse: u64,
    /// `CLOCK_MONOTONIC_RAW`: not slewed by NTP.
    pub monotonic_raw: u64,
    /// `CLOCK_REALTIME`: nanoseconds since the Unix epoch.
    pub realtime: u64,
    /// `CLOCK_REALTIME_COARSE`.
    pub realtime_coarse: u64,
    /// Time stamp counter of the CPU, in cycles of unknown length; `None` where there is none (all
    /// but x86-64).
    pub tsc: Option<u64>,
}

impl Clocks {
    /// `CLOCK_MONOTONIC` in whole milliseconds, the unit periodic work is aligned in.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        self.monotonic / NS_PER_MS
    }
}

pub(crate) const NS_PER_MS: u64 = 1_000_000;
