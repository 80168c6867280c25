//! The ids of clocks, as in `timestamp_clock_id` and `ClockSnapshot`.
//!
//! Ids below 64 are those of `BuiltinClock`; the ids of a [sequence](SEQUENCE) mean something
//! within it alone.

use std::ops::RangeInclusive;

/// Wall clock time.
pub const REALTIME: u32 = 1;
/// Wall clock time at the last tick.
pub const REALTIME_COARSE: u32 = 2;
/// Time that passed while the machine was not suspended, adjusted.
pub const MONOTONIC: u32 = 3;
/// [`MONOTONIC`] at the last tick.
pub const MONOTONIC_COARSE: u32 = 4;
/// Time that passed while the machine was not suspended, as the hardware counts it.
pub const MONOTONIC_RAW: u32 = 5;
/// Time since boot, suspension included: the clock of packets that name none.
pub const BOOTTIME: u32 = 6;
/// The CPU's time stamp counter, in cycles.
pub const TSC: u32 = 9;

/// The clocks of one sequence.
pub const SEQUENCE: RangeInclusive<u32> = 64..=127;
/// The clock of track events whose timestamps are differences to the one before.
pub const INCREMENTAL: u32 = 64;
/// The clock of track events with absolute timestamps in units other than nanoseconds.
pub const SCALED: u32 = 65;
