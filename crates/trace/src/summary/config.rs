//! The parts of the recording's config that advice refers to.

use ferretto_proto::fields::{data_source_config, perf_event_config, trace_config};
use ferretto_wire::Fields;

use crate::printable::printable;

/// The maximum number of described buffers; the service allows fewer.
const MAX_BUFFERS: usize = 1 << 10;

/// The prefix of session names of `ferretto record --ring`.
pub const RING_SESSION: &str = "ferretto-ring-";

/// One `TraceConfig.buffers`.
#[derive(Debug, Clone, Default)]
pub(super) struct BufferConfig {
    pub(super) size_kb: u64,
    pub(super) discard: bool,
    /// True if the config explicitly sets a ring, which is also the default.
    pub(super) is_ring: bool,
    pub(super) name: String,
}

/// The part of a `TraceConfig` that the summary keeps.
#[derive(Debug, Clone, Default)]
pub(super) struct Config {
    pub(super) buffers: Vec<BufferConfig>,
    pub(super) write_into_file: bool,
    /// True if `ferretto record --ring` created it: its buffer sizes depend on that flag.
    pub(super) is_flag_ring: bool,
    /// The size at which a recording into a file ends; 0 for none.
    pub(super) max_file_bytes: u64,
    pub(super) file_write_period_ms: u64,
    pub(super) drain_period_ms: u64,
    pub(super) flush_timeout_ms: u64,
    pub(super) perf: PerfConfig,
}

/// `TraceConfig.trace_attributes`.
pub(super) fn attributes(config: &[u8]) -> &[u8] {
    let attributes = Fields::find(trace_config::TRACE_ATTRIBUTES, config);
    attributes
        .and_then(|field| field.as_bytes())
        .unwrap_or_default()
}

/// The parts of a `PerfEventConfig`, with zero for missing fields.
#[derive(Debug, Clone, Default)]
pub(super) struct PerfConfig {
    /// True if the profiler ran as root; taken from packets, not from the config.
    pub(super) is_of_root: bool,
    ring_buffer_pages: u64,
    descriptor_timeout_ms: u64,
    pub(super) max_enqueued_footprint_kb: u64,
    pub(super) max_daemon_memory_kb: u64,
}

impl PerfConfig {
    fn read(bytes: &[u8]) -> Self {
        let mut config = Self::default();
        for field in Fields::new(bytes).map_while(Result::ok) {
            let number = field.as_u64().unwrap_or(0);
            match field.number {
                perf_event_config::RING_BUFFER_PAGES => config.ring_buffer_pages = number,
                perf_event_config::REMOTE_DESCRIPTOR_TIMEOUT_MS => {
                    config.descriptor_timeout_ms = number;
                }
                perf_event_config::MAX_ENQUEUED_FOOTPRINT_KB => {
                    config.max_enqueued_footprint_kb = number;
                }
                perf_event_config::MAX_DAEMON_MEMORY_KB => config.max_daemon_memory_kb = number,
                _ => {}
            }
        }
        config
    }

    /// Returns the advice for rings that are too small.
    pub(super) fn ring_advice(&self, is_off_cpu: bool) -> String {
        // The number of waits does not depend on a frequency.
        let less = match is_off_cpu {
            true => "record fewer processes (-p PID, or a scope in the config)",
            false => "sample less often (--perf=HZ, or timebase.frequency in the config)",
        };
        match self.ring_buffer_pages {
            // The profiler chose the size.
            0 => format!("{less}, or set ring_buffer_pages in the config"),
            pages => format!("{less}, or raise ring_buffer_pages (now {pages}) in the config"),
        }
    }

    pub(super) fn descriptor_timeout_ms(&self) -> u64 {
        match self.descriptor_timeout_ms {
            0 => 100,
            ms => ms,
        }
    }
}

impl Config {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut config = Self::default();
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                1 if config.buffers.len() < MAX_BUFFERS => {
                    config.buffers.extend(field.as_bytes().map(read_buffer));
                }
                2 => {
                    let source = field.as_bytes().unwrap_or_default();
                    if let Some(ms) = drain_period(source) {
                        config.drain_period_ms = ms;
                    }
                    if let Some(perf) = perf_config(source) {
                        config.perf = PerfConfig::read(perf);
                    }
                }
                8 => config.write_into_file = field.as_bool().unwrap_or(false),
                9 => config.file_write_period_ms = field.as_u64().unwrap_or(0),
                trace_config::MAX_FILE_SIZE_BYTES => {
                    config.max_file_bytes = field.as_u64().unwrap_or(0);
                }
                14 => config.flush_timeout_ms = field.as_u64().unwrap_or(0),
                trace_config::UNIQUE_SESSION_NAME => {
                    let name = field.as_bytes().unwrap_or_default();
                    config.is_flag_ring = name.starts_with(RING_SESSION.as_bytes());
                }
                _ => {}
            }
        }
        config
    }

    /// Returns the name of a buffer for users, for example `buffer 0 "kernel"`.
    pub(super) fn buffer_name(&self, index: usize) -> String {
        match self.buffers.get(index) {
            Some(buffer) if !buffer.name.is_empty() => {
                format!("buffer {index} \"{}\"", buffer.name)
            }
            _ => format!("buffer {index}"),
        }
    }
}

fn read_buffer(bytes: &[u8]) -> BufferConfig {
    let mut buffer = BufferConfig::default();
    for field in Fields::new(bytes).map_while(Result::ok) {
        match field.number {
            1 => buffer.size_kb = field.as_u64().unwrap_or(0),
            4 => {
                buffer.is_ring = field.as_u64() == Some(1);
                buffer.discard = field.as_u64() == Some(2);
            }
            7 => buffer.name = printable(field.as_bytes().unwrap_or_default()),
            _ => {}
        }
    }
    buffer
}

/// `data_sources.config.ftrace_config.drain_period_ms`.
fn drain_period(data_source: &[u8]) -> Option<u64> {
    let config = Fields::find(1, data_source)?.as_bytes()?;
    let ftrace = Fields::find(100, config)?.as_bytes()?;
    Fields::find(11, ftrace)?.as_u64()
}

/// `data_sources.config.perf_event_config`.
fn perf_config(data_source: &[u8]) -> Option<&[u8]> {
    let config = Fields::find(1, data_source)?.as_bytes()?;
    Fields::find(data_source_config::PERF_EVENT_CONFIG, config)?.as_bytes()
}
