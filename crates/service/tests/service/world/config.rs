//! Short builders for configs.

use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{DataSourceConfig, TraceConfig};

/// A builder for a trace config.
#[derive(Clone, Default)]
pub struct ConfigBuilder(pub TraceConfig);

impl ConfigBuilder {
    /// Creates a config with one buffer of 64 kB.
    pub fn new() -> Self {
        Self::default().buffer(64)
    }

    pub fn buffer(mut self, size_kb: u32) -> Self {
        self.0.buffers.push(BufferConfig {
            size_kb: Some(size_kb),
            ..Default::default()
        });
        self
    }

    pub fn source(self, name: &str) -> Self {
        self.source_to(name, 0)
    }

    pub fn source_to(mut self, name: &str, buffer: u32) -> Self {
        let config = DataSourceConfig {
            name: Some(name.into()),
            target_buffer: Some(buffer),
            ..Default::default()
        };
        self.0.data_sources.push(DataSource {
            config: config.into(),
            ..Default::default()
        });
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut TraceConfig)) -> Self {
        change(&mut self.0);
        self
    }
}

impl From<ConfigBuilder> for TraceConfig {
    fn from(builder: ConfigBuilder) -> Self {
        builder.0
    }
}
