//! The plan of a data source.

use std::time::Duration;

use ferretto_proto::UnknownFields;
use ferretto_wire::Value;

use super::{ConfigError, Event, TargetFilter};

/// The largest copy of a stack the kernel makes: below 64 KiB, in words.
pub const MAX_STACK_BYTES: u32 = 65_528;

/// The plan of a `linux.perf` data source: the config with every default filled in and every event
/// resolved.
///
/// Fields are public because the daemon reads nearly all of them; only [`Plan::new`] makes one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The event that samples are taken at, or the first that is polled.
    pub timebase: Event,
    /// Events counted along with it, in the order of the config.
    pub followers: Vec<Event>,
    /// Sampling or polling.
    pub mode: Mode,
    /// The callstacks of samples; none when polling.
    pub callstacks: Callstacks,
    /// The processes whose samples are wanted.
    pub filter: TargetFilter,
    /// The CPUs to count on.
    pub cpus: Cpus,
    /// Go on without the CPUs whose events cannot be opened.
    pub ignore_open_failure: bool,
    /// Drop samples when this many bytes of stacks wait to be unwound; upstream's
    /// `max_enqueued_footprint_kb`.
    pub max_enqueued_bytes: Option<u64>,
    /// Stop when the daemon's memory (anonymous and swapped) is larger; upstream's
    /// `max_daemon_memory_kb`.
    pub max_daemon_memory_kb: Option<u32>,
    /// The time to wait for the maps and the memory of a process.
    pub descriptor_timeout: Duration,
    /// The period after which everything cached for unwinding is forgotten.
    pub cache_clear_period: Duration,
    /// Android's `target_installed_by`; means nothing on Linux.
    pub target_installed_by: Vec<Vec<u8>>,
    /// Sentences that the user should read although nothing is wrong.
    pub notices: Vec<String>,
}

/// The way values are taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// The kernel writes samples into a ring.
    Sampling(Sampling),
    /// The counters are read now and then.
    Polling {
        /// Time between two readings.
        period: Duration,
    },
}

/// The way samples are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// When.
    pub interval: Interval,
    /// The clock of [`Sample::time`](crate::record::Sample::time).
    pub clock: Clock,
    /// Size of the ring of each CPU.
    pub ring: RingSize,
    /// Time between two reads. A ring that fills faster becomes readable
    /// ([`AsFd`](std::os::fd::AsFd)) before.
    pub read_period: Duration,
    /// The most samples to take from one ring in one read, as upstream limits it: so that one busy
    /// CPU cannot hold up everything else. Never zero.
    pub samples_per_read: u64,
    /// Bytes of the user's stack that the kernel copies into each sample, if it does; see
    /// [`Plan::set_stack_bytes`].
    pub stack_bytes: u32,
    /// The records to ask for beside samples.
    pub side_band: SideBand,
}

/// When a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// About this many times a second and CPU; the kernel adjusts the period.
    Frequency(u64),
    /// Each time the timebase has counted this many.
    Period(u64),
}

/// The size of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingSize {
    /// That many pages of the system: a power of two.
    Pages(u32),
    /// As large as the rate and the size of samples need; at least upstream's 256 pages if that is
    /// allowed.
    Auto,
}

/// A clock for samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clock {
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`, the default.
    MonotonicRaw,
    /// `CLOCK_BOOTTIME`.
    Boottime,
}

impl Clock {
    /// The number of `clock_gettime(2)`.
    pub fn id(self) -> i32 {
        match self {
            Self::Realtime => 0,
            Self::Monotonic => 1,
            Self::MonotonicRaw => 4,
            Self::Boottime => 7,
        }
    }

    /// The name in the schema's `PerfEvents.PerfClock`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Realtime => "PERF_CLOCK_REALTIME",
            Self::Monotonic => "PERF_CLOCK_MONOTONIC",
            Self::MonotonicRaw => "PERF_CLOCK_MONOTONIC_RAW",
            Self::Boottime => "PERF_CLOCK_BOOTTIME",
        }
    }
}

/// The callstacks of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Callstacks {
    /// The way user frames are found.
    pub user: UserFrames,
    /// Set if the kernel gives its own frames.
    pub kernel: bool,
}

impl Callstacks {
    /// Returns whether samples have callstacks at all; without them, a source only counts.
    pub fn sampled(self) -> bool {
        self.kernel || self.user != UserFrames::None
    }
}

/// The way user frames are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum UserFrames {
    /// Not at all.
    #[default]
    None,
    /// From registers and a copy of the stack, by unwinding tables.
    Dwarf,
    /// From registers and a copy of the stack, by frame pointers.
    FramePointer,
    /// The kernel follows frame pointers; no registers and no stack are copied.
    KernelFramePointer,
}

impl UserFrames {
    /// Returns whether samples bring registers and a copy of the stack.
    pub fn copies_stack(self) -> bool {
        matches!(self, Self::Dwarf | Self::FramePointer)
    }
}

/// Records beside samples, all with a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideBand {
    /// Fork, exit, and new command names (exec among them).
    pub tasks: bool,
    /// New executable mappings.
    pub mappings: bool,
    /// When tasks are switched in and out: for off-CPU times without tracepoints.
    pub switches: bool,
}

/// The CPUs to count on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Only these; all if empty. CPUs that do not exist or are offline are skipped.
    pub targets: Vec<u32>,
    /// Only CPUs whose Arm id begins with one of these; all if empty. Elsewhere no CPU has such an
    /// id.
    pub id_prefixes: Vec<Vec<u8>>,
}

impl Plan {
    /// The sampling parameters, unless it polls.
    pub fn sampling(&self) -> Option<&Sampling> {
        match &self.mode {
            Mode::Sampling(sampling) => Some(sampling),
            Mode::Polling { .. } => None,
        }
    }

    /// The sampling parameters to be changed, unless it polls.
    pub fn sampling_mut(&mut self) -> Option<&mut Sampling> {
        match &mut self.mode {
            Mode::Sampling(sampling) => Some(sampling),
            Mode::Polling { .. } => None,
        }
    }

    /// Timebase and followers.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        std::iter::once(&self.timebase).chain(&self.followers)
    }

    /// Returns the number of counts in each sample or reading: the timebase's, then those of the
    /// followers.
    pub fn count_of_counters(&self) -> usize {
        1 + self.followers.len()
    }

    /// Sets how much of the stack is copied into each sample. The kernel reserves that much of the
    /// ring for every sample, however deep the stack really is, so at high rates less is better.
    ///
    /// # Errors
    ///
    /// If it is not a multiple of 8 between 8 and [`MAX_STACK_BYTES`].
    pub fn set_stack_bytes(&mut self, bytes: u32) -> Result<(), ConfigError> {
        if bytes == 0 || bytes > MAX_STACK_BYTES || !bytes.is_multiple_of(8) {
            return Err(ConfigError::BadStackSize { bytes });
        }
        if let Mode::Sampling(sampling) = &mut self.mode {
            sampling.stack_bytes = bytes;
        }
        Ok(())
    }
}

/// The last value of an enumeration that the schema does not have, if field `number` has one.
pub(super) fn unknown_value(unknown: &UnknownFields, number: u32) -> Option<u64> {
    let of_field = unknown.iter().filter(|field| field.number == number);
    of_field.last().and_then(|field| match field.value {
        Some(Value::Varint(value)) => Some(value),
        _ => None,
    })
}
