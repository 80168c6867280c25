//! Timestamps of events.

use std::time::Instant;

use ferretto_format::clock::{BOOTTIME, INCREMENTAL, MONOTONIC};

use super::clock;

/// An explicit time of an event.
///
/// ```
/// use ferretto::{Timestamp, instant};
///
/// let start = std::time::Instant::now();
/// // …
/// instant!("loading", "started", time: Timestamp::from(start));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timestamp {
    pub(super) clock: u32,
    pub(super) value: u64,
}

impl Timestamp {
    /// Returns the current time of the clock of events.
    pub fn now() -> Self {
        Self::new(clock::now())
    }

    /// Creates a time on the clock of events, in nanoseconds: by default the time since boot
    /// (`CLOCK_BOOTTIME`).
    ///
    /// Takes no more space than the implicit time, unless it is before the last event of the
    /// thread, which costs some extra bytes.
    pub const fn new(nanoseconds: u64) -> Self {
        Self::of_clock(INCREMENTAL, nanoseconds)
    }

    /// Creates a time on the kernel's clock `CLOCK_BOOTTIME`, in nanoseconds. It is written in
    /// full.
    pub const fn boottime(nanoseconds: u64) -> Self {
        Self::of_clock(BOOTTIME, nanoseconds)
    }

    /// Creates a time on the kernel's clock `CLOCK_MONOTONIC`, in nanoseconds. It is written in
    /// full.
    pub const fn monotonic(nanoseconds: u64) -> Self {
        Self::of_clock(MONOTONIC, nanoseconds)
    }

    /// Creates a time on any clock. It is written in full. Numbers below 64 are those of upstream's
    /// `BuiltinClock`, which the service relates to each other; 64 is the clock of
    /// [`Timestamp::new`]; 65 to 127 are reserved. Greater numbers require a `ClockSnapshot` that
    /// describes them.
    pub const fn of_clock(clock: u32, value: u64) -> Self {
        Self { clock, value }
    }
}

impl From<Instant> for Timestamp {
    /// Subtracts the time elapsed since `instant` from now. The result is off by the duration of
    /// this call, and by any suspend in between.
    fn from(instant: Instant) -> Self {
        let elapsed = u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Self::new(clock::now().saturating_sub(elapsed))
    }
}
