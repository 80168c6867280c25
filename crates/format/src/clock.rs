//! Clock ids, as in `timestamp_clock_id` and `ClockSnapshot`.
//!
//! Ids below 64 are those of `BuiltinClock`; the ids of a [sequence](SEQUENCE) are only valid
//! within it.

use std::ops::RangeInclusive;

/// Wall clock time.
pub const REALTIME: u32 = 1;
/// Wall clock time at the last tick.
pub const REALTIME_COARSE: u32 = 2;
/// The time without suspends, adjusted.
pub const MONOTONIC: u32 = 3;
/// [`MONOTONIC`] at the last tick.
pub const MONOTONIC_COARSE: u32 = 4;
/// The time without suspends, as the hardware counts it.
pub const MONOTONIC_RAW: u32 = 5;
/// The time since boot, including suspends: the default clock of packets.
pub const BOOTTIME: u32 = 6;
/// The CPU's time stamp counter, in cycles.
pub const TSC: u32 = 9;

/// The ids of a sequence's clocks.
pub const SEQUENCE: RangeInclusive<u32> = 64..=127;
/// The clock of track events with incremental timestamps.
pub const INCREMENTAL: u32 = 64;
/// The clock of track events with absolute timestamps in units other than nanoseconds.
pub const SCALED: u32 = 65;
