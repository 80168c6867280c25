//! Parsing of a `PerfEventConfig`.

use std::time::Duration;

use ferretto_proto::perf_event_config::UnwindMode;
use ferretto_proto::perf_events::PerfClock;
use ferretto_proto::perf_events::timebase::Interval as Asked;
use ferretto_proto::{Message, PerfEventConfig, fields};

use super::plan::{
    Callstacks, Clock, Cpus, Interval, Mode, Plan, RingSize, Sampling, SideBand, UserFrames,
    unknown_value,
};
use super::resolve::Resolver;
use super::{ConfigError, Event, Kernel, TargetFilter};

const DEFAULT_FREQUENCY: u64 = 10;
const DEFAULT_READ_PERIOD_MS: u32 = 100;
const DEFAULT_DESCRIPTOR_TIMEOUT_MS: u32 = 100;
const DEFAULT_CACHE_CLEAR_PERIOD_MS: u32 = 300_000;
/// The size of the stack copy that upstream requests.
const DEFAULT_STACK_BYTES: u32 = 65_536 - 256;
/// Upstream's default size of a ring in pages; used here only for the limit of samples per read.
const DEFAULT_RING_PAGES: u32 = 256;
/// 1 GiB of 4 KiB pages for each CPU.
const MAX_RING_PAGES: u32 = 1 << 18;
/// Each follower takes a descriptor on each CPU, and 8 bytes in every sample.
const MAX_FOLLOWERS: usize = 64;

impl Plan {
    /// Parses and validates the config of a data source.
    ///
    /// # Errors
    ///
    /// Fails if the config is malformed or contradictory, or refers to something that does not
    /// exist; the message names the field and a remedy. Permissions are checked only when the
    /// events are opened.
    pub fn new(config: &[u8], kernel: &Kernel) -> Result<Self, ConfigError> {
        let config = PerfEventConfig::decode_from_slice(config)
            .map_err(|error| ConfigError::Malformed(error.to_string()))?;
        let (timebase, followers, notices) = events(&config, kernel)?;
        let (callstacks, filter) = callstacks(&config)?;
        let mode = match config.timebase.interval {
            Some(Asked::PollPeriodMs(period)) if period != 0 => polling(&config, period)?,
            _ => sampling(&config, callstacks)?,
        };
        if let Mode::Sampling(sampling) = &mode {
            check_clock(sampling.clock, std::iter::once(&timebase).chain(&followers))?;
        }
        Ok(Self {
            timebase,
            followers,
            mode,
            callstacks,
            filter,
            cpus: Cpus {
                targets: config.target_cpu,
                id_prefixes: config.cpuid,
            },
            ignore_open_failure: config.ignore_open_failure.unwrap_or(false),
            max_enqueued_bytes: config
                .max_enqueued_footprint_kb
                .filter(|&kb| kb != 0)
                .map(|kb| kb.saturating_mul(1024)),
            max_daemon_memory_kb: set(config.max_daemon_memory_kb),
            descriptor_timeout: milliseconds(
                config.remote_descriptor_timeout_ms,
                DEFAULT_DESCRIPTOR_TIMEOUT_MS,
            ),
            cache_clear_period: milliseconds(
                config.unwind_state_clear_period_ms,
                DEFAULT_CACHE_CLEAR_PERIOD_MS,
            ),
            target_installed_by: config.target_installed_by,
            notices,
        })
    }
}

/// Returns the number unless it is zero, which stands for the default.
fn set(value: Option<u32>) -> Option<u32> {
    value.filter(|&value| value != 0)
}

fn milliseconds(value: Option<u32>, default: u32) -> Duration {
    Duration::from_millis(set(value).unwrap_or(default).into())
}

/// Resolves timebase and followers, with notices for the user.
fn events(
    config: &PerfEventConfig,
    kernel: &Kernel,
) -> Result<(Event, Vec<Event>, Vec<String>), ConfigError> {
    let mut resolver = Resolver {
        kernel,
        notices: Vec::new(),
    };
    let timebase = resolver.timebase(&config.timebase)?;
    if config.followers.len() > MAX_FOLLOWERS {
        return Err(ConfigError::TooManyFollowers {
            count: config.followers.len(),
            limit: MAX_FOLLOWERS,
        });
    }
    let mut followers = Vec::new();
    for (index, follower) in config.followers.iter().enumerate() {
        followers.push(resolver.follower(index, follower)?);
    }
    Ok((timebase, followers, resolver.notices))
}

/// Reads the callstack options and the process filter. Configs of the old style have separate
/// fields for them.
fn callstacks(config: &PerfEventConfig) -> Result<(Callstacks, TargetFilter), ConfigError> {
    let old_style = config.all_cpus == Some(true);
    let asked = config.callstack_sampling.as_option();
    if asked.is_none() && !old_style {
        return Ok(Default::default());
    }
    let number = fields::perf_event_config::callstack_sampling::USER_FRAMES;
    if let Some(value) = asked.and_then(|asked| unknown_value(&asked.unknown_fields, number)) {
        return Err(ConfigError::UnknownUnwindMode { value });
    }
    let mode = asked.and_then(|asked| asked.user_frames);
    let user = match mode.unwrap_or(UnwindMode::UNWIND_UNKNOWN) {
        UnwindMode::UNWIND_UNKNOWN | UnwindMode::UNWIND_DWARF => UserFrames::Dwarf,
        UnwindMode::UNWIND_SKIP => UserFrames::None,
        UnwindMode::UNWIND_FRAME_POINTER => UserFrames::FramePointer,
        UnwindMode::UNWIND_KERNEL_FRAME_POINTER => UserFrames::KernelFramePointer,
    };
    let scope = asked.and_then(|asked| asked.scope.as_option());
    let filter = match scope {
        Some(scope) => TargetFilter::of_scope(scope),
        None => TargetFilter::of_legacy(config),
    };
    let kernel = asked.and_then(|asked| asked.kernel_frames) == Some(true)
        || config.kernel_frames == Some(true);
    Ok((Callstacks { user, kernel }, filter))
}

fn polling(config: &PerfEventConfig, period: u32) -> Result<Mode, ConfigError> {
    let refused = [
        ("callstack_sampling", config.callstack_sampling.is_set()),
        (
            "ring_buffer_read_period_ms",
            set(config.ring_buffer_read_period_ms).is_some(),
        ),
        ("all_cpus", config.all_cpus == Some(true)),
    ];
    if let Some((field, _)) = refused.into_iter().find(|(_, found)| *found) {
        return Err(ConfigError::NotWhenPolling { field });
    }
    Ok(Mode::Polling {
        period: Duration::from_millis(period.into()),
    })
}

fn sampling(config: &PerfEventConfig, callstacks: Callstacks) -> Result<Mode, ConfigError> {
    let interval = interval(config);
    let ring = ring(config)?;
    let read_period_ms = set(config.ring_buffer_read_period_ms).unwrap_or(DEFAULT_READ_PERIOD_MS);
    let samples_per_read = match interval {
        Interval::Frequency(frequency) => {
            let due = frequency.saturating_mul(read_period_ms.into()) / 1000;
            due.saturating_add(1).saturating_mul(2)
        }
        // A ring cannot contain more samples, since a sample has more than one word.
        Interval::Period(_) => {
            let pages = match ring {
                RingSize::Pages(pages) => pages,
                RingSize::Auto => DEFAULT_RING_PAGES,
            };
            u64::from(pages) * (rustix::param::page_size() as u64 / 8)
        }
    };
    let user = callstacks.user != UserFrames::None;
    Ok(Mode::Sampling(Sampling {
        interval,
        clock: clock(config.timebase.timestamp_clock),
        ring,
        read_period: Duration::from_millis(read_period_ms.into()),
        samples_per_read,
        stack_bytes: DEFAULT_STACK_BYTES,
        side_band: SideBand {
            tasks: user,
            mappings: user,
            switches: false,
        },
    }))
}

fn interval(config: &PerfEventConfig) -> Interval {
    let old_style = set(config.sampling_frequency).map_or(DEFAULT_FREQUENCY, u64::from);
    match config.timebase.interval {
        Some(Asked::Period(period)) if period != 0 => Interval::Period(period),
        Some(Asked::Frequency(frequency)) if frequency != 0 => Interval::Frequency(frequency),
        _ => Interval::Frequency(old_style),
    }
}

fn ring(config: &PerfEventConfig) -> Result<RingSize, ConfigError> {
    match set(config.ring_buffer_pages) {
        None => Ok(RingSize::Auto),
        Some(pages) if !pages.is_power_of_two() => Err(ConfigError::RingNotPowerOfTwo { pages }),
        Some(pages) if pages > MAX_RING_PAGES => Err(ConfigError::RingTooLarge {
            pages,
            limit: MAX_RING_PAGES,
        }),
        Some(pages) => Ok(RingSize::Pages(pages)),
    }
}

fn clock(asked: Option<PerfClock>) -> Clock {
    match asked.unwrap_or(PerfClock::UNKNOWN_PERF_CLOCK) {
        PerfClock::PERF_CLOCK_REALTIME => Clock::Realtime,
        PerfClock::PERF_CLOCK_MONOTONIC => Clock::Monotonic,
        PerfClock::PERF_CLOCK_BOOTTIME => Clock::Boottime,
        PerfClock::PERF_CLOCK_MONOTONIC_RAW | PerfClock::UNKNOWN_PERF_CLOCK => Clock::MonotonicRaw,
    }
}

/// Checks the clock of samples. For all but its software counters, the kernel supports only clocks
/// that can be read in any context.
fn check_clock<'a>(
    clock: Clock,
    mut events: impl Iterator<Item = &'a Event>,
) -> Result<(), ConfigError> {
    if matches!(clock, Clock::Monotonic | Clock::MonotonicRaw) {
        return Ok(());
    }
    let refusing = |event: &&Event| event.r#type == Event::TRACEPOINT || event.needs_hardware();
    match events.find(refusing) {
        Some(event) => Err(ConfigError::ClockNotPossible {
            clock: clock.name(),
            event: event.describe(),
        }),
        None => Ok(()),
    }
}
