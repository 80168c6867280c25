//! Traces, decoded with upstream's schema.

use std::collections::{BTreeSet, HashMap, HashSet};

use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_event::track_event;
use perfetto_protos::track_event::track_event::Type;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};
use protobuf::{Message as _, MessageDyn};

/// Decodes a whole trace.
///
/// # Panics
///
/// When the bytes are no trace.
#[must_use]
pub fn decode(bytes: &[u8]) -> Vec<TracePacket> {
    Trace::parse_from_bytes(bytes)
        .expect("upstream's schema decodes the trace")
        .packet
}

/// Every field number in the trace that upstream's schema does not have, as
/// `Message.number`. Fields of extensions count as known: upstream's schema
/// reserves their ranges without naming them.
#[must_use]
pub fn unknown_fields(packets: &[TracePacket]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for packet in packets {
        collect_unknown(packet, &mut found);
    }
    found
}

fn collect_unknown(message: &dyn MessageDyn, found: &mut BTreeSet<String>) {
    let descriptor = message.descriptor_dyn();
    for (number, _) in message.special_fields_dyn().unknown_fields() {
        found.insert(format!("{}.{number}", descriptor.full_name()));
    }
    for field in descriptor.fields() {
        match field.get_reflect(message) {
            ReflectFieldRef::Optional(value) => {
                if let Some(ReflectValueRef::Message(inner)) = value.value() {
                    collect_unknown(&*inner, found);
                }
            }
            ReflectFieldRef::Repeated(values) => {
                for value in values {
                    if let ReflectValueRef::Message(inner) = value {
                        collect_unknown(&*inner, found);
                    }
                }
            }
            ReflectFieldRef::Map(_) => {}
        }
    }
}

/// A track event with its interned name resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What the packet says the sender's process is.
    pub pid: i32,
    /// The sequence it came from.
    pub sequence: u32,
    /// Nanoseconds, or the raw (perhaps relative) value.
    pub timestamp: u64,
    /// Begin, end, instant or counter.
    pub kind: Type,
    /// Empty for ends and counters.
    pub name: String,
    /// The value, for counters.
    pub counter: Option<i64>,
    /// Interned and inline categories.
    pub categories: Vec<String>,
}

/// All track events in the order of the file.
#[must_use]
pub fn track_events(packets: &[TracePacket]) -> Vec<Event> {
    #[derive(Default)]
    struct Sequence {
        names: HashMap<u64, String>,
        categories: HashMap<u64, String>,
    }
    let mut sequences: HashMap<u32, Sequence> = HashMap::new();
    let mut events = Vec::new();
    for packet in packets {
        let id = packet.trusted_packet_sequence_id();
        // SEQ_INCREMENTAL_STATE_CLEARED
        if packet.sequence_flags() & 1 != 0 {
            sequences.remove(&id);
        }
        let sequence = sequences.entry(id).or_default();
        for name in &packet.interned_data.event_names {
            sequence.names.insert(name.iid(), name.name().to_owned());
        }
        for category in &packet.interned_data.event_categories {
            sequence
                .categories
                .insert(category.iid(), category.name().to_owned());
        }
        if !packet.has_track_event() {
            continue;
        }
        let event = packet.track_event();
        let mut categories = event.categories.clone();
        for iid in &event.category_iids {
            categories.push(sequence.categories.get(iid).cloned().unwrap_or_default());
        }
        let name = match &event.name_field {
            Some(track_event::Name_field::Name(name)) => name.clone(),
            Some(track_event::Name_field::NameIid(iid)) => {
                sequence.names.get(iid).cloned().unwrap_or_default()
            }
            _ => String::new(),
        };
        events.push(Event {
            pid: packet.trusted_pid(),
            sequence: id,
            timestamp: packet.timestamp(),
            kind: event.type_(),
            name,
            counter: match event.counter_value_field {
                Some(track_event::Counter_value_field::CounterValue(value)) => Some(value),
                _ => None,
            },
            categories,
        });
    }
    events
}

/// The texts of all `TestEvent`s in the order of the file.
#[must_use]
pub fn test_texts(packets: &[TracePacket]) -> Vec<&str> {
    packets
        .iter()
        .filter(|packet| packet.has_for_testing())
        .map(|packet| packet.for_testing().str())
        .collect()
}

/// Checks that the trace says of itself that nothing was lost: the newest
/// statistics of every buffer, and the loss flag of every packet.
///
/// # Panics
///
/// When something was lost, or there are no statistics.
pub fn assert_nothing_lost(packets: &[TracePacket]) {
    let stats = packets
        .iter()
        .rfind(|packet| packet.has_trace_stats())
        .expect("the trace holds statistics")
        .trace_stats();
    assert!(!stats.buffer_stats.is_empty());
    for buffer in &stats.buffer_stats {
        assert_eq!(buffer.trace_writer_packet_loss(), 0, "{buffer:?}");
        assert_eq!(buffer.chunks_overwritten(), 0, "{buffer:?}");
        assert_eq!(buffer.chunks_discarded(), 0, "{buffer:?}");
        assert_eq!(buffer.patches_failed(), 0, "{buffer:?}");
        assert_eq!(buffer.abi_violations(), 0, "{buffer:?}");
    }
    assert_eq!(stats.chunks_discarded(), 0);
    assert_eq!(stats.patches_discarded(), 0);
    assert_eq!(stats.invalid_packets(), 0);
    // The first packet of a sequence carries the flag always: nobody can know
    // what came before it.
    let mut seen = HashSet::new();
    for packet in packets {
        let first = seen.insert(packet.trusted_packet_sequence_id());
        assert!(first || !packet.previous_packet_dropped(), "{packet:?}");
    }
}
