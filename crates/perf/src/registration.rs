//! The descriptors by which the data sources register with the service.

use ferretto_proto::DataSourceDescriptor;

/// Name of the profiler's data source.
pub const LINUX_PERF: &str = "linux.perf";

/// Every data source of this crate, in the order they are registered.
pub fn descriptors() -> Vec<DataSourceDescriptor> {
    let profiler = DataSourceDescriptor {
        name: Some(LINUX_PERF.into()),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        ..Default::default()
    };
    vec![profiler, ferretto_metatrace::descriptor()]
}
