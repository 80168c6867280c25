//! Readings of the machine's clocks, taken by the driver of the service.

/// One reading of each clock of the machine, in nanoseconds unless a field says otherwise.
///
/// The driver reads all clocks in a row before it passes a batch of events to the service; the
/// service itself never reads a clock. `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC` must not go backwards
/// from one call to the next. The other clocks may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`: time since boot, including suspend. All timestamps in traces use it.
    pub boottime: u64,
    /// `CLOCK_MONOTONIC`: time since boot, excluding suspend. Periodic work is aligned to it.
    pub monotonic: u64,
    /// `CLOCK_MONOTONIC_COARSE`.
    pub monotonic_coarse: u64,
    /// `CLOCK_MONOTONIC_RAW`: not slewed by NTP.
    pub monotonic_raw: u64,
    /// `CLOCK_REALTIME`: nanoseconds since the Unix epoch.
    pub realtime: u64,
    /// `CLOCK_REALTIME_COARSE`.
    pub realtime_coarse: u64,
    /// The CPU's time stamp counter, in cycles of unknown length; `None` on all CPUs but x86-64.
    pub tsc: Option<u64>,
}

impl Clocks {
    /// Returns `CLOCK_MONOTONIC` in whole milliseconds, the unit to which periodic work is aligned.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        self.monotonic / NS_PER_MS
    }
}

pub(crate) const NS_PER_MS: u64 = 1_000_000;
