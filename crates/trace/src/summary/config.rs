//! The parts of the recording's own configuration that advice refers to.

use ferretto_wire::Fields;

use super::threads::printable;

/// Buffers beyond this number are not described; the service allows fewer.
const MAX_BUFFERS: usize = 1 << 10;

/// One `TraceConfig.buffers`.
#[derive(Debug, Clone, Default)]
pub(super) struct BufferConfig {
    pub(super) size_kb: u64,
    pub(super) discard: bool,
    pub(super) name: String,
}

/// What the summary keeps of a `TraceConfig`.
#[derive(Debug, Clone, Default)]
pub(super) struct Config {
    pub(super) buffers: Vec<BufferConfig>,
    pub(super) write_into_file: bool,
    pub(super) file_write_period_ms: u64,
    pub(super) drain_period_ms: u64,
    pub(super) flush_timeout_ms: u64,
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
                    if let Some(ms) = field.as_bytes().and_then(drain_period) {
                        config.drain_period_ms = ms;
                    }
                }
                8 => config.write_into_file = field.as_bool().unwrap_or(false),
                9 => config.file_write_period_ms = field.as_u64().unwrap_or(0),
                14 => config.flush_timeout_ms = field.as_u64().unwrap_or(0),
                _ => {}
            }
        }
        config
    }

    /// How a buffer is named to the user, for example `buffer 0 "kernel"`.
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
            4 => buffer.discard = field.as_u64() == Some(2),
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
