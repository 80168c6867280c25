//! The names of this machine's disks, of which kernel events have the numbers.

use std::fs;

use ferretto_format::disk::DISK_ATTRIBUTE;
use ferretto_proto::trace_attributes::Attribute;
use ferretto_proto::trace_attributes::attribute::Value;
use ferretto_proto::{FtraceConfig, TraceConfig, decode_lazy};

/// The largest number of disks that are named.
const MAX_DISKS: usize = 256;

/// Adds the names of disks to the start of a trace of their requests.
pub(super) fn describe(config: &mut TraceConfig) {
    let mut configs = config.data_sources.iter();
    let records_requests = configs.any(|source| {
        let config = decode_lazy::<FtraceConfig>(&source.config.ftrace_config);
        let events = config
            .map(|config| config.ftrace_events)
            .unwrap_or_default();
        let mut events = events.iter();
        events.any(|event| event.starts_with(b"block/") || event == b"*")
    });
    if !records_requests {
        return;
    }
    let Ok(disks) = fs::read_dir("/sys/class/block") else {
        return;
    };
    let attributes = config.trace_attributes.get_or_insert_default();
    for disk in disks.flatten().take(MAX_DISKS) {
        let Ok(numbers) = fs::read_to_string(disk.path().join("dev")) else {
            continue;
        };
        let name = disk.file_name().into_encoded_bytes();
        attributes.attribute.push(Attribute {
            key: Some(format!("{DISK_ATTRIBUTE}{}", numbers.trim()).into()),
            value: Some(Value::StringValue(name)),
            ..Default::default()
        });
    }
}
