//! The parts of the recording's config that advice refers to.

use ferretto_proto::views::trace_config::buffer_config::fill_policy;
use ferretto_proto::views::trace_config::{BufferConfigView, DataSourceView};
use ferretto_proto::views::{
    DataSourceConfigView, FtraceConfigView, PerfEventConfigView, TraceConfigView,
};

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
    let config = TraceConfigView::read(config);
    config.trace_attributes.unwrap_or_default()
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
        let config = PerfEventConfigView::read(bytes);
        Self {
            is_of_root: false,
            ring_buffer_pages: config.ring_buffer_pages.unwrap_or(0).into(),
            descriptor_timeout_ms: config.remote_descriptor_timeout_ms.unwrap_or(0).into(),
            max_enqueued_footprint_kb: config.max_enqueued_footprint_kb.unwrap_or(0),
            max_daemon_memory_kb: config.max_daemon_memory_kb.unwrap_or(0).into(),
        }
    }

    /// Returns the advice for rings that are too small.
    pub(super) fn ring_advice(&self, is_off_cpu: bool) -> String {
        // The number of waits does not depend on a frequency.
        let less = if is_off_cpu {
            "record fewer processes (-p PID, or a scope in the config)"
        } else {
            "sample less often (--perf=HZ, or timebase.frequency in the config)"
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
        let view = TraceConfigView::read(bytes);
        let session = view.unique_session_name.unwrap_or_default();
        let buffers = view.buffers.iter().take(MAX_BUFFERS);
        let mut config = Self {
            buffers: buffers.map(BufferConfig::read).collect(),
            write_into_file: view.write_into_file.unwrap_or(false),
            is_flag_ring: session.starts_with(RING_SESSION.as_bytes()),
            max_file_bytes: view.max_file_size_bytes.unwrap_or(0),
            file_write_period_ms: view.file_write_period_ms.unwrap_or(0).into(),
            flush_timeout_ms: view.flush_timeout_ms.unwrap_or(0).into(),
            ..Self::default()
        };
        for source in view.data_sources.iter().map(DataSourceView::read) {
            let source = DataSourceConfigView::read(source.config.unwrap_or_default());
            let ftrace = source.ftrace_config.map(FtraceConfigView::read);
            if let Some(ms) = ftrace.and_then(|ftrace| ftrace.drain_period_ms) {
                config.drain_period_ms = ms.into();
            }
            if let Some(perf) = source.perf_event_config {
                config.perf = PerfConfig::read(perf);
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

impl BufferConfig {
    fn read(bytes: &[u8]) -> Self {
        let buffer = BufferConfigView::read(bytes);
        Self {
            size_kb: buffer.size_kb.unwrap_or(0).into(),
            discard: buffer.fill_policy == Some(fill_policy::DISCARD),
            is_ring: buffer.fill_policy == Some(fill_policy::RING_BUFFER),
            name: printable(buffer.name.unwrap_or_default()),
        }
    }
}
