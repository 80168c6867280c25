//! Names of packets and kernel events by field number, from the embedded schema.

use std::collections::HashMap;

use ferretto_wire::Fields;

/// `FileDescriptorSet.file`, `FileDescriptorProto.message_type`, `DescriptorProto.field`.
const FILE: u32 = 1;
const FILE_MESSAGE: u32 = 4;
const MESSAGE_NAME: u32 = 1;
const MESSAGE_FIELD: u32 = 2;
const FIELD_NAME: u32 = 1;
const FIELD_NUMBER: u32 = 3;

/// Field names of one top-level message, by field number.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldNames {
    names: HashMap<u32, String>,
}

impl FieldNames {
    /// Names of the fields of `message` (unqualified name) in an encoded `FileDescriptorSet`.
    pub(super) fn of(message: &str, descriptors: &[u8]) -> Self {
        let mut names = HashMap::new();
        for descriptor in messages(descriptors) {
            let name = Fields::find(MESSAGE_NAME, descriptor).and_then(|field| field.as_bytes());
            if name != Some(message.as_bytes()) {
                continue;
            }
            for field in nested(descriptor, MESSAGE_FIELD) {
                let number = Fields::find(FIELD_NUMBER, field).and_then(|f| f.as_u32());
                let name = Fields::find(FIELD_NAME, field);
                if let (Some(number), Some(name)) =
                    (number, name.as_ref().and_then(|f| f.as_str_lossy()))
                {
                    names.insert(number, name.into_owned());
                }
            }
        }
        Self { names }
    }

    /// The name of a field, or `#number` for one the schema does not have.
    pub(super) fn get(&self, number: u32) -> String {
        match self.names.get(&number) {
            Some(name) => name.clone(),
            None => format!("#{number}"),
        }
    }
}

fn messages(descriptors: &[u8]) -> impl Iterator<Item = &[u8]> {
    nested(descriptors, FILE).flat_map(|file| nested(file, FILE_MESSAGE))
}

fn nested(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    Fields::new(bytes)
        .map_while(Result::ok)
        .filter(move |field| field.number == number)
        .filter_map(|field| field.as_bytes())
}

/// Which data source writes a packet of this kind, as far as the kind alone tells.
pub(super) fn source_of(kind: u32) -> Option<&'static str> {
    Some(match kind {
        1 | 34 => "linux.ftrace",
        2 | 9 => "linux.process_stats",
        7 => "linux.sys_stats",
        4 => "linux.inode_file_map",
        67 | 128 | 130 => "linux.system_info",
        132 => "linux.systemd_journald",
        11 | 43 | 44 | 60 | 90 => "track_event",
        66 | 135 => "linux.perf",
        37 | 54 | 61 | 68 | 74 | 75 => "profiling",
        49 => "perfetto.metatrace",
        6 | 33 | 35 | 36 | 45 | 46 | 69 | 72 | 89 | 107 | 113 | 124 | 125 | 126 | 134 => SERVICE,
        _ => return None,
    })
}

/// What the packets are filed under that the tracing service itself writes.
pub(super) const SERVICE: &str = "tracing service";

/// Fields of `TracePacket` that say something about the packet and are not its data.
pub(super) fn is_envelope(number: u32) -> bool {
    matches!(
        number,
        3 | 8 | 10 | 12 | 13 | 41 | 42 | 58 | 59 | 79 | 87 | 98
    )
}
