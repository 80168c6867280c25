//! The descriptors by which the data sources register with the service.

use ferretto_proto::{DataSourceDescriptor, FtraceDescriptor, Message};

use crate::ftrace::FTRACE;
use crate::kinds::KINDS;

/// Returns a descriptor of every data source of this crate, in the order they are registered.
pub fn descriptors() -> Vec<DataSourceDescriptor> {
    let ftrace = DataSourceDescriptor {
        ftrace_descriptor: Some(FtraceDescriptor::default().encode_to_vec()),
        ..descriptor(FTRACE)
    };
    let kinds = KINDS.iter().map(|kind| DataSourceDescriptor {
        handles_incremental_state_clear: kind.has_incremental_state.then_some(true),
        ..descriptor(kind.name)
    });
    let metatrace = DataSourceDescriptor {
        will_notify_on_start: Some(true),
        ..ferretto_metatrace::descriptor()
    };
    [ftrace]
        .into_iter()
        .chain(kinds)
        .chain([metatrace])
        .collect()
}

fn descriptor(name: &str) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(name.as_bytes().to_vec()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        ..Default::default()
    }
}
