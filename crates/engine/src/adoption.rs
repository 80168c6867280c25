//! Matches recordings with the startup tracing that was started for them.

use ferretto_proto::DataSourceConfig;

/// Returns true if two configs are equal apart from fields that only the service fills in.
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
