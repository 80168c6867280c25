//! How the data sources present themselves to the service.

use ferretto_proto::{DataSourceDescriptor, FtraceDescriptor, Message};

/// Name of the ftrace data source.
pub const FTRACE: &str = "linux.ftrace";
/// Name of the battery data source.
pub const SYSFS_POWER: &str = "linux.sysfs_power";
/// Name of the process data source.
pub const PROCESS_STATS: &str = "linux.process_stats";
/// Name of the system counter data source.
pub const SYS_STATS: &str = "linux.sys_stats";
/// Name of the system information data source.
pub const SYSTEM_INFO: &str = "linux.system_info";

/// Every data source of this crate, in the order they are registered.
pub fn descriptors() -> Vec<DataSourceDescriptor> {
    [FTRACE, SYSFS_POWER, PROCESS_STATS, SYS_STATS, SYSTEM_INFO]
        .map(descriptor)
        .into_iter()
        .chain([DataSourceDescriptor {
            will_notify_on_start: Some(true),
            ..ferretto_metatrace::descriptor()
        }])
        .collect()
}

fn descriptor(name: &str) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(name.as_bytes().to_vec()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: (name == PROCESS_STATS).then_some(true),
        ftrace_descriptor: match name {
            FTRACE => Some(FtraceDescriptor::default().encode_to_vec()),
            _ => None,
        },
        ..Default::default()
    }
}
