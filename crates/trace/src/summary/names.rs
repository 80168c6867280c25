//! Names of packets and kernel events by field number, from the embedded schema.

use ferretto_proto::fields::trace_packet as field;
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
        field::FTRACE_EVENTS | field::FTRACE_STATS => "linux.ftrace",
        field::PROCESS_TREE | field::PROCESS_STATS => "linux.process_stats",
        field::SYS_STATS => "linux.sys_stats",
        field::INODE_FILE_MAP => "linux.inode_file_map",
        field::CPU_INFO | field::GPU_INFO | field::INTERRUPT_INFO => "linux.system_info",
        field::JOURNALD_EVENT => "linux.systemd_journald",
        field::TRACK_EVENT
        | field::PROCESS_DESCRIPTOR
        | field::THREAD_DESCRIPTOR
        | field::TRACK_DESCRIPTOR
        | field::TRACK_EVENT_RANGE_OF_INTEREST => "track_event",
        field::PERF_SAMPLE | field::STACK_SAMPLE => "linux.perf",
        field::PROFILE_PACKET
        | field::STREAMING_PROFILE_PACKET
        | field::MODULE_SYMBOLS
        | field::SMAPS_PACKET
        | field::STREAMING_ALLOCATION
        | field::STREAMING_FREE => "profiling",
        field::PERFETTO_METATRACE => "perfetto.metatrace",
        field::CLOCK_SNAPSHOT
        | field::TRACE_CONFIG
        | field::TRACE_STATS
        | field::SYNCHRONIZATION_MARKER
        | field::SYSTEM_INFO
        | field::TRIGGER
        | field::SERVICE_EVENT
        | field::EXTENSION_DESCRIPTOR
        | field::TRACE_UUID
        | field::REMOTE_CLOCK_SYNC
        | field::CLONE_SNAPSHOT_TRIGGER
        | field::TRACE_PROVENANCE
        | field::PROTOVMS
        | field::TRACE_ATTRIBUTES
        | field::CONCURRENT_SESSION_EVENT => SERVICE,
        _ => return None,
    })
}

/// The source name for packets that the tracing service itself writes.
pub(super) const SERVICE: &str = "tracing service";
