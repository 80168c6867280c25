//! The parts of a recording's result that must be the same in every mix.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;

use ferretto_interop::trace;
use ferretto_interop::wire::{Message, Value};
use ferretto_proto::fields::trace_stats::buffer_stats;
use ferretto_proto::fields::{trace_packet, trace_stats};
use ferretto_text::schema::{Kind, MessageId, Schema};

use crate::mix::{Run, contents};

/// The query for the errors and losses that the importer counts.
const COMPLAINTS: &str = "select name from stats where severity != 'info' and value > 0";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    exits: Vec<i32>,
    traces: BTreeMap<String, Trace>,
}

/// The parts of one trace file that are compared.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    /// The fields with compressed packets, if there are any.
    compressed: BTreeSet<u32>,
    /// The kinds of the service's own packets in the order of their first occurrence: the number of
    /// clock snapshots depends on timing.
    service: Vec<String>,
    /// The kinds of packets whose position depends on timing.
    anywhere: BTreeSet<String>,
    /// The number of other packets, by kind.
    kinds: BTreeMap<String, usize>,
    texts: Vec<String>,
    stats: BTreeMap<&'static str, u64>,
    unknown: BTreeSet<String>,
    /// The errors and losses that upstream's importer counts.
    complaints: BTreeSet<String>,
}

/// Packets whose position depends on the writes of a long recording and on flushes.
const ANYWHERE: [&str; 3] = [
    "trace_stats",
    "service_event+read_tracing_buffers_completed",
    "service_event+clone_started",
];

/// Packets whose number depends on timing.
const POLLED: [&str; 3] = ["sys_stats", "process_stats", "process_tree"];

/// An event that a detached session only has if a consumer is attached at that time.
const AT_TIMES: &str = "service_event+all_data_sources_started";

impl Outcome {
    /// Returns the result with all traces in the run's folder.
    pub(crate) fn of(run: &Run) -> Self {
        let folder = std::fs::read_dir(run.world.folder()).expect("the folder is there");
        let paths = folder.map(|entry| entry.expect("an entry").path());
        let mut traces = BTreeMap::new();
        for path in paths {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.contains(".pftrace") {
                let complaints = run
                    .folders
                    .importer()
                    .map(|importer| import(&importer, &path));
                traces.insert(
                    name,
                    Trace::of(&contents(&path), complaints.unwrap_or_default()),
                );
            }
        }
        Self {
            exits: run.exits.clone(),
            traces,
        }
    }

    /// # Panics
    /// If the results differ.
    pub(crate) fn assert_same(&self, reference: &Self, whose: &str) {
        assert_eq!(self.exits, reference.exits, "{whose}: exit codes");
        let names = |outcome: &Self| outcome.traces.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(reference), "{whose}: files");
        for (name, trace) in &self.traces {
            let expected = &reference.traces[name];
            assert_eq!(
                trace.service, expected.service,
                "{whose}: {name}: service packets"
            );
            assert_eq!(trace.stats, expected.stats, "{whose}: {name}: statistics");
            assert_eq!(trace.kinds, expected.kinds, "{whose}: {name}: packets");
            assert_eq!(
                trace.anywhere, expected.anywhere,
                "{whose}: {name}: service packets"
            );
            assert_eq!(trace.texts, expected.texts, "{whose}: {name}: contents");
            assert_eq!(
                trace.compressed, expected.compressed,
                "{whose}: {name}: codec"
            );
            assert_eq!(
                trace.unknown, expected.unknown,
                "{whose}: {name}: unknown fields"
            );
            let more: Vec<&String> = trace.complaints.difference(&expected.complaints).collect();
            assert!(
                more.is_empty(),
                "{whose}: {name}: the importer complains: {more:?}"
            );
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exits {:?}", self.exits)?;
        for (name, trace) in &self.traces {
            let kinds: usize = trace.kinds.values().sum();
            let (service, texts) = (trace.service.len(), trace.texts.len());
            write!(
                f,
                "; {name}: {service} service, {kinds} others, {texts} texts"
            )?;
            if !trace.complaints.is_empty() {
                write!(f, ", importer: {:?}", trace.complaints)?;
            }
        }
        Ok(())
    }
}

impl Trace {
    fn of(bytes: &[u8], complaints: BTreeSet<String>) -> Self {
        let packets = trace::decode(bytes);
        let outer = trace::packets(bytes);
        let codecs = [
            trace_packet::COMPRESSED_PACKETS,
            trace_packet::ZSTD_COMPRESSED_PACKETS,
        ];
        let compressed = outer
            .iter()
            .filter_map(|packet| codecs.into_iter().find(|codec| packet.has(*codec)));
        let (service, others): (Vec<&Message>, Vec<&Message>) = packets
            .iter()
            .partition(|packet| trace::sequence(packet) == 1);
        let (anywhere, service): (Vec<String>, Vec<String>) = service
            .into_iter()
            .map(kind)
            .filter(|kind| kind != AT_TIMES)
            .partition(|kind| ANYWHERE.contains(&kind.as_str()));
        let mut seen = BTreeSet::new();
        let service = service.into_iter().filter(|kind| seen.insert(kind.clone()));
        let mut kinds = BTreeMap::new();
        for packet in others {
            let kind = kind(packet);
            let polled = POLLED.contains(&kind.as_str());
            let count: &mut usize = kinds.entry(kind).or_default();
            *count = if polled { 1 } else { *count + 1 };
        }
        // The sequences of different producers have no order.
        let mut texts = trace::texts(&packets);
        texts.sort_unstable();
        Self {
            compressed: compressed.collect(),
            service: service.collect(),
            anywhere: anywhere.into_iter().collect(),
            kinds,
            texts,
            stats: stats(&packets),
            unknown: trace::unknown_fields(&packets),
            complaints,
        }
    }
}

/// Returns the names of a packet's message fields.
fn kind(packet: &Message) -> String {
    let id = Schema::perfetto().message_named("perfetto.protos.TracePacket");
    let mut names = Vec::new();
    for (number, value) in packet.fields() {
        if let (Some((name, inner)), Value::Bytes(bytes)) =
            (message_field(id.expect("in the schema"), *number), value)
        {
            names.push(name.to_owned());
            if *number == trace_packet::SERVICE_EVENT {
                let event = Message::decode(bytes);
                let numbers = event.fields().iter().map(|(number, _)| *number);
                let known = Schema::perfetto().message(inner);
                names.extend(numbers.filter_map(|n| Some(known.field(n)?.name.to_owned())));
            }
        }
    }
    names.join("+")
}

fn message_field(id: MessageId, number: u32) -> Option<(&'static str, MessageId)> {
    let field = Schema::perfetto().message(id).field(number)?;
    match field.kind {
        Kind::Message(inner) => Some((field.name, inner)),
        _ => None,
    }
}

/// Returns the statistics that do not depend on sizes and times.
fn stats(packets: &[Message]) -> BTreeMap<&'static str, u64> {
    if trace::with(packets, trace_packet::TRACE_STATS).is_empty() {
        return BTreeMap::new();
    }
    let stats = trace::stats(packets);
    let happened = |field| u64::from(trace::in_buffers(&stats, field) > 0);
    BTreeMap::from([
        ("sessions", stats.number(trace_stats::TRACING_SESSIONS)),
        ("buffers", stats.number(trace_stats::TOTAL_BUFFERS)),
        ("invalid", stats.number(trace_stats::INVALID_PACKETS)),
        ("discarded", stats.number(trace_stats::CHUNKS_DISCARDED)),
        ("patches", stats.number(trace_stats::PATCHES_DISCARDED)),
        ("failed flushes", stats.number(trace_stats::FLUSHES_FAILED)),
        ("outcome", stats.number(trace_stats::FINAL_FLUSH_OUTCOME)),
        ("overwritten", happened(buffer_stats::CHUNKS_OVERWRITTEN)),
        ("full", happened(buffer_stats::CHUNKS_DISCARDED)),
        ("lost", happened(buffer_stats::TRACE_WRITER_PACKET_LOSS)),
        ("violations", happened(buffer_stats::ABI_VIOLATIONS)),
        ("patches failed", happened(buffer_stats::PATCHES_FAILED)),
        ("filtered", u64::from(stats.has(trace_stats::FILTER_STATS))),
        (
            "histogram",
            u64::from(stats.has(trace_stats::CHUNK_PAYLOAD_HISTOGRAM_DEF)),
        ),
    ])
}

/// Returns the errors and losses that upstream's importer counts in the trace.
fn import(importer: &Path, trace: &Path) -> BTreeSet<String> {
    let mut command = Command::new(importer);
    let output = command.arg("-Q").arg(COMPLAINTS).arg(trace).output();
    let output = output.expect("the importer runs");
    assert!(
        output.status.success(),
        "the importer fails: {}",
        trace.display()
    );
    let table = String::from_utf8_lossy(&output.stdout);
    let names = table.lines().skip(1).filter(|line| !line.is_empty());
    names
        .map(|name| name.trim_matches('"').to_owned())
        .collect()
}
