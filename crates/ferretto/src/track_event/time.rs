//! When events happen.

use std::time::Instant;

use ferretto_format::clock::{BOOTTIME, INCREMENTAL, MONOTONIC};

use super::clock;

/// A time of an event, other than now.
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
    /// Now, by the clock of all events.
    pub fn now() -> Self {
        Self::new(clock::now())
    }

    /// Nanoseconds of the clock that all events have: by default the time since the machine was
    /// started (`CLOCK_BOOTTIME`).
    ///
    /// Costs no more space than the time of any other event; but an event whose time is before that
    /// of the last one on its thread takes some bytes more.
    pub const fn new(nanoseconds: u64) -> Self {
        Self::of_clock(INCREMENTAL, nanoseconds)
    }

    /// A time of the kernel's clock `CLOCK_BOOTTIME`, in nanoseconds, written in full.
    pub const fn boottime(nanoseconds: u64) -> Self {
        Self::of_clock(BOOTTIME, nanoseconds)
    }

    /// A time of the kernel's clock `CLOCK_MONOTONIC`, in nanoseconds, written in full.
    pub const fn monotonic(nanoseconds: u64) -> Self {
        Self::of_clock(MONOTONIC, nanoseconds)
    }

    /// A time of any clock, written in full. Numbers below 64 are those of upstream's
    /// `BuiltinClock`, which the service relates to each other; 64 is the clock of
    /// [`Timestamp::new`], 65 to 127 are taken; greater ones mean something to those only who
    /// record a `ClockSnapshot` with them.
    pub const fn of_clock(clock: u32, value: u64) -> Self {
        Self { clock, value }
    }
}

impl From<Instant> for Timestamp {
    /// Takes the time that has passed since, so it is off by the moment this takes, and by the time
    /// the machine slept.
    fn from(instant: Instant) -> Self {
        let elapsed = u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Self::new(clock::now().saturating_sub(elapsed))
    }
}
