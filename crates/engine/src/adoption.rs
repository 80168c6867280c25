//! Whether a recording is the one that startup tracing was begun for.

use ferretto_proto::DataSourceConfig;

/// Whether two configs want the same, apart from what only the service can know.
pub fn is_same(startup: &DataSourceConfig, config: &DataSourceConfig) -> bool {
    essence(startup) == essence(config)
}

fn essence(config: &DataSourceConfig) -> DataSourceConfig {
    DataSourceConfig {
        target_buffer: None,
        tracing_session_id: None,
        session_initiator: None,
        trace_duration_ms: None,
        stop_timeout_ms: None,
        enable_extra_guardrails: None,
        ..config.clone()
    }
}
