//! Errors of configs.

use std::path::PathBuf;

/// The reason why a config is rejected: the field, the problem, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The bytes are not a `PerfEventConfig`.
    #[error("perf_event_config could not be parsed: {0}")]
    Malformed(String),
    /// The counter is not in the enumeration, or is `UNKNOWN_COUNTER`.
    #[error(
        "{field}.counter: {value} is not a known PerfEvents.Counter; the software counters are 1 to 9 and 20, the hardware counters 10 to 19"
    )]
    UnknownCounter {
        /// `timebase` or `followers[N]`.
        field: String,
        /// The value.
        value: u64,
    },
    /// The tracepoint lacks a group or a name.
    #[error(
        "{field}.tracepoint.name: {name:?} is not of the form \"group:name\" or \"group/name\", such as \"sched:sched_switch\""
    )]
    BadTracepointName {
        /// `timebase` or `followers[N]`.
        field: String,
        /// The name.
        name: String,
    },
    /// The kernel has no such tracepoint, or does not show it.
    #[error(
        "{field}.tracepoint.name: cannot find the id of \"{name}\" ({reason}); `ls /sys/kernel/tracing/events/{group}` lists what there is, and only root may read it unless tracefs was mounted otherwise"
    )]
    NoSuchTracepoint {
        /// `timebase` or `followers[N]`.
        field: String,
        /// The name, as `group:name`.
        name: String,
        /// Its group.
        group: String,
        /// The reason why the lookup failed.
        reason: String,
    },
    /// The filter contains a zero byte, which cannot be passed to the kernel.
    #[error("{field}.tracepoint.filter holds a zero byte")]
    BadFilter {
        /// `timebase` or `followers[N]`.
        field: String,
    },
    /// The raw event has two types.
    #[error("{field}.raw_event sets both type and pmu_name: leave one of them out")]
    TypeAndPmuName {
        /// `timebase` or `followers[N]`.
        field: String,
    },
    /// The PMU of the raw event does not exist.
    #[error("{field}.raw_event.pmu_name: {name:?} is not a performance monitoring unit of this machine ({reason}); `ls {}` lists them", directory.display())]
    NoSuchPmu {
        /// `timebase` or `followers[N]`.
        field: String,
        /// The name.
        name: String,
        /// The reason why the lookup failed.
        reason: String,
        /// The directory of all PMUs.
        directory: PathBuf,
    },
    /// There are more followers than a group of events can have.
    #[error("followers: {count} are more than the {limit} that one group may have")]
    TooManyFollowers {
        /// Their number.
        count: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// The unwinding mode is not in the enumeration.
    #[error(
        "callstack_sampling.user_frames: {value} is not a known UnwindMode; 1 skips user frames, 2 is DWARF, 3 frame pointers, 4 frame pointers followed by the kernel"
    )]
    UnknownUnwindMode {
        /// The value.
        value: u64,
    },
    /// The size of the ring is not a power of two.
    #[error("ring_buffer_pages: {pages} is not a power of two; the nearest are {} and {}", below(*pages), above(*pages))]
    RingNotPowerOfTwo {
        /// The size in pages.
        pages: u32,
    },
    /// The ring is larger than any kernel allows.
    #[error(
        "ring_buffer_pages: {pages} is more than the {limit} pages that one ring may have here"
    )]
    RingTooLarge {
        /// The size in pages.
        pages: u32,
        /// The largest allowed size.
        limit: u32,
    },
    /// The field does not apply to polled counters.
    #[error(
        "{field} cannot be combined with timebase.poll_period_ms: a polled counter has neither callstacks nor a ring buffer; leave it out, or sample by frequency or period"
    )]
    NotWhenPolling {
        /// The field.
        field: &'static str,
    },
    /// The kernel does not support this clock for tracepoints.
    #[error(
        "timebase.timestamp_clock: the kernel cannot stamp {event} with {clock} (only software counters can use it); use PERF_CLOCK_MONOTONIC_RAW (the default) or PERF_CLOCK_MONOTONIC"
    )]
    ClockNotPossible {
        /// The name of the clock in the schema.
        clock: &'static str,
        /// The event, such as `tracepoint sched:sched_switch`.
        event: String,
    },
    /// The kernel does not support this size of stack copies.
    #[error(
        "a stack copy of {bytes} bytes is not possible: it takes a multiple of 8 from 8 to 65528"
    )]
    BadStackSize {
        /// The requested size.
        bytes: u32,
    },
}

fn below(pages: u32) -> u32 {
    1 << pages.max(1).ilog2()
}

fn above(pages: u32) -> u64 {
    u64::from(below(pages)) * 2
}
