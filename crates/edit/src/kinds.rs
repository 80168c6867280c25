//! Classification of packets by their place in a part of a trace.

use ferretto_proto::fields::trace_attributes::attribute;
use ferretto_proto::fields::trace_packet as kind;
use ferretto_trace::summary::PART_FROM_ATTRIBUTE;
use ferretto_wire::Fields;

/// Returns true for packets that describe the machine or the recording as a whole: each part begins
/// with them.
pub(crate) fn is_about_all(number: u32) -> bool {
    matches!(
        number,
        kind::TRACE_CONFIG
            | kind::SYSTEM_INFO
            | kind::CPU_INFO
            | kind::GPU_INFO
            | kind::INTERRUPT_INFO
            | kind::TRACE_ATTRIBUTES
            | kind::TRACE_PROVENANCE
            | kind::EXTENSION_DESCRIPTOR
            | kind::REMOTE_CLOCK_SYNC
            | kind::CHROME_METADATA
            | kind::PACKAGES_LIST
            | kind::USER_LIST
            | kind::TRANSLATION_TABLE
    )
}

/// Returns true for packets that are kept regardless of their time, because they are written late,
/// such as statistics.
pub(crate) fn is_about_end(number: u32) -> bool {
    matches!(
        number,
        kind::TRACE_STATS
            | kind::FTRACE_STATS
            | kind::DEOBFUSCATION_MAPPING
            | kind::SERVICE_EVENT
            | kind::TRIGGER
            | kind::CLONE_SNAPSHOT_TRIGGER
            | kind::CHROME_TRIGGER
            | kind::UI_STATE
            | kind::PROTOVMS
            | kind::ART_PROCESS_METADATA
            | kind::INODE_FILE_MAP
            | kind::INITIAL_DISPLAY_STATE
    )
}

/// Returns true for measurements that are valid until the next one.
pub(crate) fn is_measurement(number: u32) -> bool {
    matches!(number, kind::SYS_STATS | kind::BATTERY)
}

/// Returns true for descriptors of tracks and of writing threads.
pub(crate) fn is_descriptor(number: u32) -> bool {
    matches!(
        number,
        kind::TRACK_DESCRIPTOR | kind::PROCESS_DESCRIPTOR | kind::THREAD_DESCRIPTOR
    )
}

/// Returns true for trace attributes with the time window of a part: edited traces do not inherit
/// them.
pub(crate) fn is_window(attributes: &[u8]) -> bool {
    Fields::new(attributes).map_while(Result::ok).any(|entry| {
        let key = entry.as_bytes();
        let key = key.and_then(|entry| Fields::find(attribute::KEY, entry));
        key.is_some_and(|key| key.as_bytes() == Some(PART_FROM_ATTRIBUTE.as_bytes()))
    })
}
