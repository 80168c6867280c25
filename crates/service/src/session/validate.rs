//! Checks of a trace config that do not depend on other sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferretto_proto::trace_config::buffer_config::ExperimentalMode;
use ferretto_proto::trace_config::{BufferConfig, TriggerConfig, trigger_config::TriggerMode};
use ferretto_proto::{DataSourceConfig, Message, TraceConfig};

use crate::compress::{Compressor, NoDeflate};
use crate::filter::{FilterError, TraceFilter};
use crate::limits::{
    MAX_BUFFERS_PER_SESSION, MAX_DURATION_MS, MAX_GUARDED_BUFFERS_KB, MAX_GUARDED_DURATION_MS,
    REPLY_BYTES,
};
use crate::matching::{Budget, Pattern, PatternError, quoted};
use crate::priority::{InvalidPriority, Priority};

/// The reason why a session was refused. The texts of the first group are exactly upstream's, since
/// tools search for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EnableError {
    AlreadyActive,
    TooLong {
        requested: u32,
        limit: u32,
    },
    TriggerTimeout(u32),
    TriggerMode,
    CloneNeedsStop,
    DurationWithTriggers,
    BugreportFilename,
    TriggerIntoFile,
    DuplicateTrigger(String),
    GuardedDeferredStart,
    GuardedBufferSize(u32),
    GuardedBufferSum {
        requested: u64,
        limit: u32,
    },
    TooManyBuffers(usize),
    DuplicateBufferName {
        name: String,
        index: usize,
        first: usize,
    },
    UnknownBufferName {
        source_name: String,
        buffer: String,
    },
    BufferMismatch {
        source_name: String,
        target: u32,
        buffer: String,
        index: usize,
    },
    BufferOutOfBounds {
        source_name: String,
        target: usize,
        count: usize,
    },
    Exclusive {
        active: u32,
        requested: u32,
    },
    NameTaken(String),
    Semaphore {
        name: String,
        count: u64,
        own: u64,
        others: u64,
    },
    Cooldown {
        name: String,
        age_s: u64,
    },
    TooManySessionsOfUser {
        count: usize,
        uid: u32,
        limit: usize,
    },
    TooManySessions(usize),
    Filter(FilterError),
    Priority(InvalidPriority),
    Boost(String),
    NoOutput,
    Compression(NoDeflate),
    /// Upstream always has ProtoVM.
    NoProtoVm,
    CreateFile(String),
    /// Upstream creates the file.
    OutputPath(String, String),
    BufferSizes,
    NoBuffers,

    /// Upstream sends the config, and so loses the producer.
    SourceTooLarge(String),
    /// Upstream aborts instead.
    Pattern {
        field: &'static str,
        pattern: String,
        reason: String,
    },
}

ferretto_wire::error_text! {
    EnableError {
        Self::AlreadyActive =>
            "A Consumer is trying to EnableTracing() but another tracing session is already active (forgot a \
             call to FreeBuffers() ?)",
        Self::TooLong { requested, limit } => "Requested too long trace ({requested}ms  > {limit} ms)",
        Self::TriggerTimeout(ms) =>
            "Traces with START_TRACING triggers must provide a positive trigger_timeout_ms < 7 days (received \
             {ms}ms)",
        Self::TriggerMode => "The trace config specified an invalid trigger_mode",
        Self::CloneNeedsStop => "trigger_mode must be STOP_TRACING when use_clone_snapshot_if_available=true",
        Self::DurationWithTriggers => "duration_ms was set, this must not be set for traces with triggers.",
        Self::BugreportFilename => "bugreport_filename contains invalid chars. Use [a-zA-Z0-9-_.]+",
        Self::TriggerIntoFile =>
            "Specifying trigger mode STOP_TRACING/CLONE_SNAPSHOT and write_into_file together is unsupported",
        Self::DuplicateTrigger(name) => "Duplicate trigger name: {name}",
        Self::GuardedDeferredStart => "deferred_start=true is not supported in unsupervised traces",
        Self::GuardedBufferSize(size_kb) => "buffers.size_kb must be a multiple of 4, got {size_kb}",
        Self::GuardedBufferSum { requested, limit } =>
            "Requested too large trace buffer ({requested}kB  > {limit} kB)",
        Self::TooManyBuffers(count) => "Too many buffers configured ({count})",
        Self::DuplicateBufferName { name, index, first } =>
            "Duplicate buffer name \"{name}\" at index {index} (first occurrence at index {first})",
        Self::UnknownBufferName { source_name, buffer } =>
            "Data source \"{source_name}\" specified target_buffer_name \"{buffer}\" which does not match any buffer",
        Self::BufferMismatch { source_name, target, buffer, index } =>
            "Data source \"{source_name}\" specified both target_buffer={target} and \
             target_buffer_name=\"{buffer}\" (index {index}) but they don't match",
        Self::BufferOutOfBounds { source_name, target, count } =>
            "Data source \"{source_name}\" specified an out of bounds target_buffer ({target} >= {count})",
        Self::Exclusive { active, requested } =>
            "An exclusive session with priority {active} >= requested priority {requested} is already active.",
        Self::NameTaken(name) => "A trace with this unique session name ({name}) already exists",
        Self::Semaphore { name, count, own, others } =>
            "Semaphore \"{name}\" exceeds maximum allowed other session count ({count} > min({own}, {others}))",
        Self::Cooldown { name, age_s } =>
            "A trace with unique session name \"{name}\" began less than 300s ago ({age_s}s)",
        Self::TooManySessionsOfUser { count, uid, limit } =>
            "Too many concurrent tracing sesions ({count}) for uid {uid} limit is {limit}",
        Self::TooManySessions(count) => "Too many concurrent tracing sesions ({count})",
        Self::Filter(error) => "{error}",
        Self::Priority(error) => "Invalid priority boost config: {error}",
        Self::Boost(reason) => "Failed to boost priority: {reason}",
        Self::NoOutput =>
            "When write_into_file==true either a FD needs to be passed or output_path must be populated (but \
             not both)",
        Self::Compression(error) => "{error}",
        Self::NoProtoVm => "This service was built without ProtoVM (feature \"protovm\" of ferretto-service)",
        Self::OutputPath(path, why) => "The service does not create the trace file {path}: {why}",
        Self::CreateFile(reason) => "Failed to create the trace file {reason}",
        Self::BufferSizes => "Failed to allocate tracing buffers: Invalid buffer sizes",
        Self::NoBuffers => "Failed to allocate tracing buffers: OOM or too many buffers",
        Self::SourceTooLarge(name) =>
            "The config of data source \"{name}\" is too large to be sent to producers",
        Self::Pattern { pattern, field, reason } =>
            "Invalid regular expression \"{pattern}\" in {field}: {reason}",
    }
    source {
        Self::Filter(error) => error,
        Self::Priority(error) => error,
    }
    from { Filter(FilterError), Priority(InvalidPriority), Compression(NoDeflate) }
}

/// A checked config, with the values that the checks computed.
#[derive(Debug)]
pub(crate) struct CheckedConfig {
    pub(crate) config: TraceConfig,
    /// One entry for each of the config's data sources.
    pub(crate) sources: Vec<Source>,
    pub(crate) filter: Option<TraceFilter>,
    /// The priority that the session requests for the service.
    pub(crate) priority: Option<Priority>,
    pub(crate) compressor: Option<Compressor>,
    /// The producers that may activate each trigger; `None` allows all.
    pub(crate) trigger_patterns: Vec<Option<Pattern>>,
}

/// A data source of the config, with values that the checks computed.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) patterns: Vec<Pattern>,
    /// The index of the buffer in the config.
    pub(crate) buffer: usize,
    /// The config that instances get, once it was built.
    pub(crate) instance_config: Option<Arc<DataSourceConfig>>,
}

/// Makes the checks that depend only on the config, in upstream's order.
pub(crate) fn check_config(
    config: TraceConfig,
    budget: &mut Budget,
) -> Result<CheckedConfig, EnableError> {
    let guarded = config.enable_extra_guardrails.unwrap_or(false);
    check_durations(&config, guarded)?;
    check_bugreport_filename(&config)?;
    let trigger_patterns = check_triggers(&config, budget)?;
    if guarded {
        check_guardrails(&config)?;
    }
    let names = check_buffer_names(&config)?;
    let mut sources = Vec::with_capacity(config.data_sources.len());
    for source in &config.data_sources {
        let buffer = resolve_buffer(&config, &names, &source.config)?;
        let patterns = source
            .producer_name_regex_filter
            .iter()
            .map(|pattern| compile("producer_name_regex_filter", pattern, budget))
            .collect::<Result<_, _>>()?;
        if source.config.encoded_len() as usize > MAX_SOURCE_CONFIG {
            let name = text(source.config.name.as_deref().unwrap_or_default());
            return Err(EnableError::SourceTooLarge(name));
        }
        if !cfg!(feature = "protovm") && source.config.protovm_config.as_option().is_some() {
            return Err(EnableError::NoProtoVm);
        }
        sources.push(Source {
            patterns,
            buffer,
            instance_config: None,
        });
    }
    Ok(CheckedConfig {
        config,
        sources,
        filter: None,
        priority: None,
        compressor: None,
        trigger_patterns,
    })
}

/// Makes the checks that follow upstream's checks against other sessions.
pub(crate) fn check_late(
    checked: &mut CheckedConfig,
    budget: &mut Budget,
) -> Result<(), EnableError> {
    let filter = checked.config.trace_filter.as_option();
    let filter = filter.map(|filter| TraceFilter::load_within(filter, budget));
    checked.filter = filter.transpose()?;
    let boost = checked.config.priority_boost.as_option();
    checked.priority = boost.map(Priority::from_config).transpose()?;
    checked.compressor = Compressor::for_config(&checked.config)?;
    Ok(())
}

/// Checks that there is exactly one destination. A path takes precedence over a descriptor.
pub(crate) fn check_output(config: &TraceConfig, has_fd: bool) -> Result<(), EnableError> {
    let has_path = !config.output_path.as_deref().unwrap_or_default().is_empty();
    if config.write_into_file.unwrap_or(false) && !has_path && !has_fd {
        return Err(EnableError::NoOutput);
    }
    Ok(())
}

/// Makes the checks of upstream's allocation, after the output file was opened.
pub(crate) fn check_buffer_sizes(config: &TraceConfig) -> Result<(), EnableError> {
    let valid = |buffer: &BufferConfig| {
        let bytes = u64::from(buffer.size_kb.unwrap_or(0)) * 1024;
        let bytes = match buffer.experimental_mode {
            // Upstream's second kind of buffer consists of pages.
            Some(ExperimentalMode::TRACE_BUFFER_V2) => bytes.next_multiple_of(4096),
            _ => bytes,
        };
        (1..=u64::from(u32::MAX)).contains(&bytes)
    };
    if !config.buffers.iter().all(valid) {
        return Err(EnableError::BufferSizes);
    }
    // An unknown enum value is among the unknown fields.
    let unknown_mode = |b: &BufferConfig| {
        b.unknown_fields
            .iter()
            .any(|f| f.number == EXPERIMENTAL_MODE)
    };
    if config.buffers.iter().any(unknown_mode) {
        return Err(EnableError::NoBuffers);
    }
    Ok(())
}

/// The largest config of one data source, with space for the service's additions and the frame.
const MAX_SOURCE_CONFIG: usize = REPLY_BYTES - 256;

/// Numbers of fields whose unknown enum values have a meaning.
const EXPERIMENTAL_MODE: u32 = 8;
const TRIGGER_MODE: u32 = 1;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_triggered(triggers: &TriggerConfig) -> bool {
    !matches!(triggers.trigger_mode, None | Some(TriggerMode::UNSPECIFIED))
        || has_unknown_mode(triggers)
}

fn has_unknown_mode(triggers: &TriggerConfig) -> bool {
    let mut unknown = triggers.unknown_fields.iter();
    unknown.any(|field| field.number == TRIGGER_MODE)
}

fn check_durations(config: &TraceConfig, guarded: bool) -> Result<(), EnableError> {
    let limit = if guarded {
        MAX_GUARDED_DURATION_MS
    } else {
        MAX_DURATION_MS
    };
    let requested = config.duration_ms.unwrap_or(0);
    if requested > limit {
        return Err(EnableError::TooLong { requested, limit });
    }
    let triggers = &*config.trigger_config;
    let clones = triggers.use_clone_snapshot_if_available.unwrap_or(false);
    if is_triggered(triggers) || clones {
        let timeout = triggers.trigger_timeout_ms.unwrap_or(0);
        if timeout == 0 || timeout > limit {
            return Err(EnableError::TriggerTimeout(timeout));
        }
    }
    if has_unknown_mode(triggers) {
        return Err(EnableError::TriggerMode);
    }
    if clones && triggers.trigger_mode != Some(TriggerMode::STOP_TRACING) {
        return Err(EnableError::CloneNeedsStop);
    }
    if is_triggered(triggers) && requested != 0 {
        return Err(EnableError::DurationWithTriggers);
    }
    Ok(())
}

fn check_bugreport_filename(config: &TraceConfig) -> Result<(), EnableError> {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    let name = config.bugreport_filename.as_deref().unwrap_or_default();
    if name.iter().all(allowed) {
        Ok(())
    } else {
        Err(EnableError::BugreportFilename)
    }
}

fn check_triggers(
    config: &TraceConfig,
    budget: &mut Budget,
) -> Result<Vec<Option<Pattern>>, EnableError> {
    let triggers = &*config.trigger_config;
    let stops = matches!(
        triggers.trigger_mode,
        Some(TriggerMode::STOP_TRACING | TriggerMode::CLONE_SNAPSHOT)
    );
    if stops && config.write_into_file.unwrap_or(false) {
        return Err(EnableError::TriggerIntoFile);
    }
    let mut seen = BTreeSet::new();
    let mut patterns = Vec::with_capacity(triggers.triggers.len());
    for trigger in &triggers.triggers {
        let name = trigger.name.as_deref().unwrap_or_default();
        if !seen.insert(name) {
            return Err(EnableError::DuplicateTrigger(text(name)));
        }
        let pattern = trigger.producer_name_regex.as_deref().unwrap_or_default();
        patterns.push(match pattern {
            [] => None,
            pattern => Some(compile("producer_name_regex", pattern, budget)?),
        });
    }
    Ok(patterns)
}

fn check_guardrails(config: &TraceConfig) -> Result<(), EnableError> {
    if config.deferred_start.unwrap_or(false) {
        return Err(EnableError::GuardedDeferredStart);
    }
    let sizes = || config.buffers.iter().map(|b| b.size_kb.unwrap_or(0));
    if let Some(odd) = sizes().find(|kb| kb % 4 != 0) {
        return Err(EnableError::GuardedBufferSize(odd));
    }
    let requested = sizes().map(u64::from).sum();
    let raised = config
        .guardrail_overrides
        .max_tracing_buffer_size_kb
        .unwrap_or(0);
    let limit = raised.max(MAX_GUARDED_BUFFERS_KB);
    if requested > u64::from(limit) {
        return Err(EnableError::GuardedBufferSum { requested, limit });
    }
    Ok(())
}

fn check_buffer_names(config: &TraceConfig) -> Result<BTreeMap<&[u8], usize>, EnableError> {
    let count = config.buffers.len();
    if count > MAX_BUFFERS_PER_SESSION {
        return Err(EnableError::TooManyBuffers(count));
    }
    let mut names = BTreeMap::new();
    for (index, buffer) in config.buffers.iter().enumerate() {
        let name = buffer.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        if let Some(first) = names.insert(name, index) {
            return Err(EnableError::DuplicateBufferName {
                name: text(name),
                index,
                first,
            });
        }
    }
    Ok(names)
}

fn resolve_buffer(
    config: &TraceConfig,
    names: &BTreeMap<&[u8], usize>,
    source: &DataSourceConfig,
) -> Result<usize, EnableError> {
    let source_name = || text(source.name.as_deref().unwrap_or_default());
    let target = source.target_buffer.unwrap_or(0);
    let mut resolved = target as usize;
    let buffer = source.target_buffer_name.as_deref().unwrap_or_default();
    if !buffer.is_empty() {
        let Some(&index) = names.get(buffer) else {
            return Err(EnableError::UnknownBufferName {
                source_name: source_name(),
                buffer: text(buffer),
            });
        };
        if target != 0 && resolved != index {
            let (source_name, buffer) = (source_name(), text(buffer));
            return Err(EnableError::BufferMismatch {
                source_name,
                target,
                buffer,
                index,
            });
        }
        resolved = index;
    }
    let count = config.buffers.len();
    if resolved >= count {
        let source_name = source_name();
        return Err(EnableError::BufferOutOfBounds {
            source_name,
            target: resolved,
            count,
        });
    }
    Ok(resolved)
}

fn compile(
    field: &'static str,
    pattern: &[u8],
    budget: &mut Budget,
) -> Result<Pattern, EnableError> {
    Pattern::new(pattern, budget).map_err(|PatternError(reason)| EnableError::Pattern {
        field,
        pattern: quoted(pattern),
        reason,
    })
}
