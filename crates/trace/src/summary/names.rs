//! Names of packets and kernel events by field number, from the embedded schema.

use ferretto_text::schema::Schema;

/// Returns the name of a field of the message with a full name, or `#number` for an unknown field.
pub(super) fn field_name(message: &str, number: u32) -> String {
    let schema = Schema::perfetto();
    let message = schema.message_named(message).map(|id| schema.message(id));
    match message.and_then(|message| message.field(number)) {
        Some(field) => field.name.to_owned(),
        None => format!("#{number}"),
    }
}

/// Returns the data source that writes packets of this kind, if the kind determines it.
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

/// The source name for packets that the tracing service itself writes.
pub(super) const SERVICE: &str = "tracing service";
