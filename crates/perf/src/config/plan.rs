//! The plan of a data source.

use std::time::Duration;

use ferretto_proto::UnknownFields;
use ferretto_wire::Value;

use super::{ConfigError, Event, TargetFilter};

/// The largest stack copy that the kernel makes: below 64 KiB, in whole words.
pub const MAX_STACK_BYTES: u32 = 65_528;

/// The plan of a `linux.perf` data source: the config with all defaults set and all events
/// resolved.
///
/// The fields are public because the daemon reads nearly all of them; only [`Plan::new`] creates a
/// plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The event that triggers samples, or the first polled event.
    pub timebase: Event,
    /// The events counted together with the timebase, in the order of the config.
    pub followers: Vec<Event>,
    /// The mode: sampling or polling.
    pub mode: Mode,
    /// The callstacks of samples; none for polling.
    pub callstacks: Callstacks,
    /// The filter of processes.
    pub filter: TargetFilter,
    /// The CPUs on which events are counted.
    pub cpus: Cpus,
    /// Set to continue without the CPUs whose events cannot be opened.
    pub ignore_open_failure: bool,
    /// The number of bytes of stacks waiting to be unwound above which samples are dropped;
    /// upstream's `max_enqueued_footprint_kb`.
    pub max_enqueued_bytes: Option<u64>,
    /// The memory of the daemon (anonymous and swapped) above which the data source stops;
    /// upstream's `max_daemon_memory_kb`.
    pub max_daemon_memory_kb: Option<u32>,
    /// The time limit for getting the maps and the memory of a process.
    pub descriptor_timeout: Duration,
    /// The period after which the unwinding caches are cleared.
    pub cache_clear_period: Duration,
    /// Android's `target_installed_by`, which has no effect on Linux.
    pub target_installed_by: Vec<Vec<u8>>,
    /// Notices for the user that are not errors.
    pub notices: Vec<String>,
}

/// The way in which values are obtained.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// The kernel writes samples into a ring.
    Sampling(Sampling),
    /// The daemon reads the counters periodically.
    Polling {
        /// The time between two readings.
        period: Duration,
    },
}

/// The parameters of sampling.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// The interval between samples.
    pub interval: Interval,
    /// The clock of [`Sample::time`](crate::record::Sample::time).
    pub clock: Clock,
    /// The size of the ring of each CPU.
    pub ring: RingSize,
    /// The time between two reads. A ring that fills faster becomes readable before
    /// ([`AsFd`](std::os::fd::AsFd)).
    pub read_period: Duration,
    /// The limit of samples per read of a ring, as in upstream, so that one busy CPU cannot block
    /// the others. Never zero.
    pub samples_per_read: u64,
    /// The number of bytes of the user stack in each sample, if the stack is copied; see
    /// [`Plan::set_stack_bytes`].
    pub stack_bytes: u32,
    /// The records requested besides samples.
    pub side_band: SideBand,
}

/// The interval between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// The target number of samples per second and CPU; the kernel adjusts the period.
    Frequency(u64),
    /// The number of timebase counts between samples.
    Period(u64),
}

/// The size of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingSize {
    /// A number of pages, a power of two.
    Pages(u32),
    /// A size that suits the rate and the size of samples; at least upstream's 256 pages if that is
    /// allowed.
    Auto,
}

/// The clock of samples.
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
    /// Returns the clock id of `clock_gettime(2)`.
    pub fn id(self) -> i32 {
        match self {
            Self::Realtime => 0,
            Self::Monotonic => 1,
            Self::MonotonicRaw => 4,
            Self::Boottime => 7,
        }
    }

    /// Returns the name in the schema's `PerfEvents.PerfClock`.
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
    /// The method of unwinding user frames.
    pub user: UserFrames,
    /// Set if the kernel's frames are included.
    pub kernel: bool,
}

impl Callstacks {
    /// Returns true if samples have callstacks; otherwise the source only counts.
    pub fn sampled(self) -> bool {
        self.kernel || self.user != UserFrames::None
    }
}

/// The method of unwinding user frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum UserFrames {
    /// No user frames.
    #[default]
    None,
    /// Registers and a copy of the stack, unwound by unwind tables.
    Dwarf,
    /// Registers and a copy of the stack, unwound by frame pointers.
    FramePointer,
    /// The kernel follows frame pointers; registers and the stack are not copied.
    KernelFramePointer,
}

impl UserFrames {
    /// Returns true if samples contain registers and a copy of the stack.
    pub fn copies_stack(self) -> bool {
        matches!(self, Self::Dwarf | Self::FramePointer)
    }
}

/// The records besides samples, all with a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideBand {
    /// Fork, exit, and new command names (including exec).
    pub tasks: bool,
    /// New executable mappings.
    pub mappings: bool,
    /// Context switches, for off-CPU times without tracepoints.
    pub switches: bool,
}

/// The CPUs on which events are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpus {
    /// The selected CPUs; all if empty. Nonexistent and offline CPUs are skipped.
    pub targets: Vec<u32>,
    /// Prefixes of Arm CPU ids; CPUs without such an id are skipped. All CPUs if empty. On other
    /// architectures no CPU has an id.
    pub id_prefixes: Vec<Vec<u8>>,
}

impl Plan {
    /// Returns the sampling parameters; `None` for polling.
    pub fn sampling(&self) -> Option<&Sampling> {
        match &self.mode {
            Mode::Sampling(sampling) => Some(sampling),
            Mode::Polling { .. } => None,
        }
    }

    /// Returns the sampling parameters for modification; `None` for polling.
    pub(crate) fn sampling_mut(&mut self) -> Option<&mut Sampling> {
        match &mut self.mode {
            Mode::Sampling(sampling) => Some(sampling),
            Mode::Polling { .. } => None,
        }
    }

    /// Returns the timebase and the followers.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        std::iter::once(&self.timebase).chain(&self.followers)
    }

    /// Returns the number of counters in each sample or reading: the timebase and the followers.
    pub fn count_of_counters(&self) -> usize {
        1 + self.followers.len()
    }

    /// Returns the number of context switches of a CPU per second up to which all of them are
    /// sampled, and above which some are; `None` if the kernel samples at one interval.
    pub(crate) fn samples_all_up_to(&self) -> Option<u64> {
        let sampling = self.sampling()?;
        match sampling.interval {
            Interval::Frequency(limit) if sampling.side_band.switches => {
                self.followers.is_empty().then_some(limit)
            }
            _ => None,
        }
    }

    /// Sets the size of the stack copy in each sample. The kernel reserves this size in the ring
    /// for every sample, whatever the actual depth of the stack, so smaller is better at high
    /// rates.
    ///
    /// # Errors
    ///
    /// Fails if the size is not a multiple of 8 between 8 and [`MAX_STACK_BYTES`].
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

/// Returns the last enum value of field `number` that is not in the schema, if any.
pub(super) fn unknown_value(unknown: &UnknownFields, number: u32) -> Option<u64> {
    let of_field = unknown.iter().filter(|field| field.number == number);
    of_field.last().and_then(|field| match field.value {
        Some(Value::Varint(value)) => Some(value),
        _ => None,
    })
}
