//! The packet that describes the recorded command.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use ferretto_proto::TraceConfig;
use ferretto_proto::fields::{trace, trace_attributes, trace_packet};
use ferretto_proto::trace_attributes::Attribute;
use ferretto_proto::trace_attributes::attribute::Value;
use ferretto_trace::summary::{COMMAND_ATTRIBUTE, COMMAND_PID_ATTRIBUTE};
use ferretto_wire::encode;

/// Adds the command to the start of the trace.
pub(super) fn describe(config: &mut TraceConfig, words: &[OsString]) {
    if words.is_empty() {
        return;
    }
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let attributes = config.trace_attributes.get_or_insert_default();
    attributes.attribute.push(Attribute {
        key: Some(COMMAND_ATTRIBUTE.into()),
        value: Some(Value::StringValue(words.join(&b' '))),
        ..Default::default()
    });
}

/// The process id of the command, which is known only after the start of the trace.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandPid(Arc<OnceLock<i32>>);

impl CommandPid {
    pub(super) fn set(&self, pid: i32) {
        // There is one command.
        let _ = self.0.set(pid);
    }

    /// Returns a packet with the process id, to append to the trace; empty without a command.
    pub(super) fn packet(&self) -> Vec<u8> {
        use trace_attributes::{ATTRIBUTE, attribute};
        let Some(pid) = self.0.get() else {
            return Vec::new();
        };
        encode(|out| {
            out.nested(trace::PACKET, |packet| {
                packet.nested(trace_packet::TRACE_ATTRIBUTES, |attributes| {
                    attributes.nested(ATTRIBUTE, |entry| {
                        entry.string(attribute::KEY, COMMAND_PID_ATTRIBUTE);
                        entry.int(attribute::LONG_VALUE, i64::from(*pid));
                    });
                });
            });
        })
    }
}
