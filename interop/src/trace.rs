//! The parts of a trace that scenarios check.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read as _;

use ferretto_proto::fields::trace_stats::buffer_stats;
use ferretto_proto::fields::{
    event_category, event_name, interned_data, test_event, trace, trace_packet, trace_stats,
    track_event,
};
use ferretto_text::schema::{Kind, MessageId, Schema};

use crate::wire::{Message, Value};

/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const CLEARED: u64 = 1;

/// Returns the packets of a trace, in order.
///
/// # Panics
///
/// If the bytes are not a trace.
#[must_use]
pub fn packets(trace: &[u8]) -> Vec<Message> {
    let trace = Message::decode(trace);
    let other = trace
        .fields()
        .iter()
        .find(|(number, _)| *number != trace::PACKET);
    assert_eq!(other, None, "a trace holds packets only");
    trace.messages(trace::PACKET)
}

/// Returns the packets of a trace, with compressed packets replaced by their contents.
///
/// # Panics
///
/// If the bytes are not a trace.
#[must_use]
pub fn decode(trace: &[u8]) -> Vec<Message> {
    let mut unpacked = Vec::new();
    for packet in packets(trace) {
        match inside(&packet) {
            Some(inner) => unpacked.extend(packets(&inner)),
            None => unpacked.push(packet),
        }
    }
    unpacked
}

fn inside(packet: &Message) -> Option<Vec<u8>> {
    let mut inner = Vec::new();
    if let Some(bytes) = packet.all(trace_packet::COMPRESSED_PACKETS).next() {
        let mut stream = flate2::read::ZlibDecoder::new(bytes);
        stream.read_to_end(&mut inner).expect("deflated packets");
    } else if let Some(bytes) = packet.all(trace_packet::ZSTD_COMPRESSED_PACKETS).next() {
        let mut stream = ruzstd::decoding::StreamingDecoder::new(bytes).expect("a zstd frame");
        stream.read_to_end(&mut inner).expect("zstd packets");
    } else {
        return None;
    }
    assert_eq!(
        packet.fields().len(),
        1,
        "nothing beside the compressed packets"
    );
    Some(inner)
}

/// Returns the packets with a field.
#[must_use]
pub fn with(packets: &[Message], field: u32) -> Vec<&Message> {
    packets.iter().filter(|packet| packet.has(field)).collect()
}

/// Returns every field in the trace that is not in the schema, as `Message.number`.
///
/// # Panics
///
/// If a message field does not contain a message.
#[must_use]
pub fn unknown_fields(packets: &[Message]) -> BTreeSet<String> {
    let schema = Schema::perfetto();
    let packet = schema.message_named("perfetto.protos.TracePacket");
    let mut found = BTreeSet::new();
    for message in packets {
        collect_unknown(
            message,
            packet.expect("packets are in the schema"),
            &mut found,
        );
    }
    found
}

fn collect_unknown(message: &Message, id: MessageId, found: &mut BTreeSet<String>) {
    let known = Schema::perfetto().message(id);
    for (number, value) in message.fields() {
        match (known.field(*number).map(|field| field.kind), value) {
            (None, _) => {
                found.insert(format!("{}.{number}", known.full_name));
            }
            (Some(Kind::Message(inner)), Value::Bytes(bytes)) => {
                collect_unknown(&Message::decode(bytes), inner, found);
            }
            (Some(_), _) => {}
        }
    }
}

/// The value of `TrackEvent.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the schema")]
pub enum EventKind {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// A track event with its interned name resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The process id in the packet.
    pub pid: u64,
    /// The id of the sequence.
    pub sequence: u64,
    /// The kind of event.
    pub kind: EventKind,
    /// The name; empty for ends and counters.
    pub name: String,
    /// The value, for counters.
    pub counter: Option<u64>,
    /// Interned and inline categories.
    pub categories: Vec<String>,
}

/// The interned strings of one sequence.
#[derive(Default)]
struct Interned {
    names: HashMap<u64, String>,
    categories: HashMap<u64, String>,
}

impl Interned {
    fn take(&mut self, packet: &Message) {
        let data = packet.message(trace_packet::INTERNED_DATA);
        for name in data.messages(interned_data::EVENT_NAMES) {
            let text = name.text(event_name::NAME).to_owned();
            self.names.insert(name.number(event_name::IID), text);
        }
        for category in data.messages(interned_data::EVENT_CATEGORIES) {
            let text = category.text(event_category::NAME).to_owned();
            let iid = category.number(event_category::IID);
            self.categories.insert(iid, text);
        }
    }

    fn event(&self, packet: &Message) -> Event {
        let event = packet.message(trace_packet::TRACK_EVENT);
        let known =
            |names: &HashMap<u64, String>, iid| names.get(&iid).cloned().unwrap_or_default();
        let inline = event.all(track_event::CATEGORIES);
        let mut categories: Vec<String> = inline
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        for iid in event.numbers(track_event::CATEGORY_IIDS) {
            categories.push(known(&self.categories, iid));
        }
        let iid = event.number(track_event::NAME_IID);
        Event {
            pid: packet.number(trace_packet::TRUSTED_PID),
            sequence: sequence(packet),
            kind: match event.number(track_event::TYPE) {
                1 => EventKind::SliceBegin,
                2 => EventKind::SliceEnd,
                3 => EventKind::Instant,
                4 => EventKind::Counter,
                other => panic!("no kind of track event: {other}"),
            },
            name: match event.text(track_event::NAME) {
                "" => known(&self.names, iid),
                name => name.to_owned(),
            },
            counter: event
                .has(track_event::COUNTER_VALUE)
                .then(|| event.number(track_event::COUNTER_VALUE)),
            categories,
        }
    }
}

/// Returns the sequence that a packet belongs to.
#[must_use]
pub fn sequence(packet: &Message) -> u64 {
    packet.number(trace_packet::TRUSTED_PACKET_SEQUENCE_ID)
}

/// Returns all track events in the order of the file.
///
/// # Panics
/// If a track event has an unknown type.
#[must_use]
pub fn track_events(packets: &[Message]) -> Vec<Event> {
    let mut sequences: HashMap<u64, Interned> = HashMap::new();
    let mut events = Vec::new();
    for packet in packets {
        let id = sequence(packet);
        if packet.number(trace_packet::SEQUENCE_FLAGS) & CLEARED != 0 {
            sequences.remove(&id);
        }
        let interned = sequences.entry(id).or_default();
        interned.take(packet);
        if packet.has(trace_packet::TRACK_EVENT) {
            events.push(interned.event(packet));
        }
    }
    events
}

/// Returns the texts of all `TestEvent`s in the order of the file.
#[must_use]
pub fn texts(packets: &[Message]) -> Vec<String> {
    with(packets, trace_packet::FOR_TESTING)
        .iter()
        .map(|packet| packet.message(trace_packet::FOR_TESTING))
        .map(|event| event.text(test_event::STR).to_owned())
        .collect()
}

/// Returns the numbers that the producers' command `numbers` wrote, in the order of the file.
///
/// # Panics
///
/// If a text is not such a number.
#[must_use]
pub fn numbers(packets: &[Message]) -> Vec<u64> {
    let texts = texts(packets);
    let numbers = texts.iter().map(|text| text.trim_end_matches('.').parse());
    numbers.map(|number| number.expect("a number")).collect()
}

/// Returns the newest statistics in the trace.
///
/// # Panics
///
/// If there are none.
#[must_use]
pub fn stats(packets: &[Message]) -> Message {
    let packet = packets
        .iter()
        .rfind(|packet| packet.has(trace_packet::TRACE_STATS));
    packet
        .expect("the trace holds statistics")
        .message(trace_packet::TRACE_STATS)
}

/// Returns the sum of a statistic over all buffers.
#[must_use]
pub fn in_buffers(stats: &Message, field: u32) -> u64 {
    let buffers = stats.messages(trace_stats::BUFFER_STATS);
    buffers.iter().map(|buffer| buffer.number(field)).sum()
}

/// Checks that the trace reports no losses: in the newest statistics of every buffer, and in the
/// loss flag of every packet.
///
/// # Panics
///
/// If data was lost, or there are no statistics.
pub fn assert_nothing_lost(packets: &[Message]) {
    let stats = stats(packets);
    assert!(stats.has(trace_stats::BUFFER_STATS));
    for field in [
        buffer_stats::TRACE_WRITER_PACKET_LOSS,
        buffer_stats::CHUNKS_OVERWRITTEN,
        buffer_stats::CHUNKS_DISCARDED,
        buffer_stats::PATCHES_FAILED,
        buffer_stats::ABI_VIOLATIONS,
    ] {
        assert_eq!(in_buffers(&stats, field), 0, "BufferStats.{field}");
    }
    for field in [
        trace_stats::CHUNKS_DISCARDED,
        trace_stats::PATCHES_DISCARDED,
        trace_stats::INVALID_PACKETS,
    ] {
        assert_eq!(stats.number(field), 0, "TraceStats.{field}");
    }
    // The first packet of a sequence always has the flag, because earlier losses are unknown.
    let mut seen = HashSet::new();
    for packet in packets {
        let first = seen.insert(sequence(packet));
        assert!(
            first || !packet.has(trace_packet::PREVIOUS_PACKET_DROPPED),
            "{packet:?}"
        );
    }
}
