//! Why a config is refused.

use std::path::PathBuf;

/// The reason why a config is refused: the field, its fault, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The bytes are no `PerfEventConfig`.
    #[error("perf_event_config could not be parsed: {0}")]
    Malformed(String),
    /// A counter that is not in the enumeration, or `UNKNOWN_COUNTER`.
    #[error(
        "{field}.counter: {value} is not a known PerfEvents.Counter; the software counters are 1 to 9 and 20, the hardware counters 10 to 19"
    )]
    UnknownCounter {
        /// `timebase` or `followers[N]`.
        field: String,
        /// The number found.
        value: u64,
    },
    /// A tracepoint without group or name.
    #[error(
        "{field}.tracepoint.name: {name:?} is not of the form \"group:name\" or \"group/name\", such as \"sched:sched_switch\""
    )]
    BadTracepointName {
        /// `timebase` or `followers[N]`.
        field: String,
        /// The name found.
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
        /// The reason why it was not possible.
        reason: String,
    },
    /// A filter that holds a zero byte, which the kernel cannot be told.
    #[error("{field}.tracepoint.filter holds a zero byte")]
    BadFilter {
        /// `timebase` or `followers[N]`.
        field: String,
    },
    /// A raw event with two types.
    #[error("{field}.raw_event sets both type and pmu_name: leave one of them out")]
    TypeAndPmuName {
        /// `timebase` or `followers[N]`.
        field: String,
    },
    /// A raw event of a PMU that does not exist.
    #[error("{field}.raw_event.pmu_name: {name:?} is not a performance monitoring unit of this machine ({reason}); `ls {}` lists them", directory.display())]
    NoSuchPmu {
        /// `timebase` or `followers[N]`.
        field: String,
        /// The name found.
        name: String,
        /// The reason why it was not possible.
        reason: String,
        /// The directory that lists them.
        directory: PathBuf,
    },
    /// More followers than a group of events may have.
    #[error("followers: {count} are more than the {limit} that one group may have")]
    TooManyFollowers {
        /// Their number.
        count: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// An unwinding mode that is not in the enumeration.
    #[error(
        "callstack_sampling.user_frames: {value} is not a known UnwindMode; 1 skips user frames, 2 is DWARF, 3 frame pointers, 4 frame pointers followed by the kernel"
    )]
    UnknownUnwindMode {
        /// The number found.
        value: u64,
    },
    /// A ring that is not a power of two of pages.
    #[error("ring_buffer_pages: {pages} is not a power of two; the nearest are {} and {}", below(*pages), above(*pages))]
    RingNotPowerOfTwo {
        /// The number found.
        pages: u32,
    },
    /// A ring that no kernel gives.
    #[error(
        "ring_buffer_pages: {pages} is more than the {limit} pages that one ring may have here"
    )]
    RingTooLarge {
        /// The number found.
        pages: u32,
        /// The most there may be.
        limit: u32,
    },
    /// A field that makes no sense for counters that are polled.
    #[error(
        "{field} cannot be combined with timebase.poll_period_ms: a polled counter has neither callstacks nor a ring buffer; leave it out, or sample by frequency or period"
    )]
    NotWhenPolling {
        /// The field.
        field: &'static str,
    },
    /// The kernel cannot stamp tracepoints with this clock.
    #[error(
        "timebase.timestamp_clock: the kernel cannot stamp {event} with {clock} (only software counters can use it); use PERF_CLOCK_MONOTONIC_RAW (the default) or PERF_CLOCK_MONOTONIC"
    )]
    ClockNotPossible {
        /// The clock, as in the schema.
        clock: &'static str,
        /// The event, such as `tracepoint sched:sched_switch`.
        event: String,
    },
    /// A copy of the stack of a size that the kernel refuses.
    #[error(
        "a stack copy of {bytes} bytes is not possible: it takes a multiple of 8 from 8 to 65528"
    )]
    BadStackSize {
        /// The size asked for.
        bytes: u32,
    },
}

fn below(pages: u32) -> u32 {
    1 << pages.max(1).ilog2()
}

fn above(pages: u32) -> u64 {
    u64::from(below(pages)) * 2
}
