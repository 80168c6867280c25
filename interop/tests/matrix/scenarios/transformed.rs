//! Traces that the service filters or compresses.

use ferretto_interop::config::{config, filter};
use ferretto_interop::trace;
use ferretto_interop::wire::Message;
use ferretto_interop::{Cast, Side, World};
use ferretto_proto::fields::trace_stats::filter_stats;
use ferretto_proto::fields::{trace_packet, trace_stats};
use ferretto_proto::trace_config::CompressionConfig;
use ferretto_proto::trace_config::compression_config::{Deflate, Zstd};
use ferretto_proto::{MessageField, TraceConfig};

use crate::PROGRAMS;

fn compressed(cast: Cast, compression: CompressionConfig, field: u32) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    let config = TraceConfig {
        compression: compression.into(),
        ..config(4096)
    };
    world.start_session(&mut consumer, &config);
    producer.run("await-start 1");
    producer.run("numbers 0 2000");
    let bytes = world.stop_and_read(&mut consumer);
    let packets = trace::decode(&bytes);
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..2000));
    let outer = trace::packets(&bytes);
    let compressed = outer.iter().filter(|packet| packet.has(field)).count();
    match cast.service {
        Side::Ours => {
            assert_eq!(compressed, outer.len(), "all packets are compressed");
            assert!(compressed > 1 && bytes.len() < 50_000, "{}", bytes.len());
        }
        // The SDK's sources have no codecs.
        Side::Official => assert_eq!(compressed, 0),
    }
}

pub(crate) fn a_trace_is_deflated(cast: Cast) {
    let deflate = CompressionConfig {
        deflate: MessageField::some(Deflate::default()),
        ..Default::default()
    };
    compressed(cast, deflate, trace_packet::COMPRESSED_PACKETS);
}

pub(crate) fn a_trace_is_compressed_with_zstd(cast: Cast) {
    let zstd = CompressionConfig {
        zstd: MessageField::some(Zstd::default()),
        ..Default::default()
    };
    compressed(cast, zstd, trace_packet::ZSTD_COMPRESSED_PACKETS);
}

pub(crate) fn a_filter_removes_fields_and_secrets(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    let config = TraceConfig {
        trace_filter: filter().into(),
        ..config(4096)
    };
    world.start_session(&mut consumer, &config);
    producer.run("await-start 1");
    producer.run("slices 10");
    producer.run("text public");
    producer.run("text key=hunter2");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    assert_eq!(trace::texts(&packets), ["public", "key=P60REDA"]);
    let (stats, others): (Vec<Message>, Vec<Message>) = packets
        .into_iter()
        .partition(|packet| packet.has(trace_packet::TRACE_STATS));
    let mut fields: Vec<u32> = others
        .iter()
        .flat_map(|packet| packet.fields().iter().map(|(number, _)| *number))
        .collect();
    fields.sort_unstable();
    fields.dedup();
    let allowed = [
        trace_packet::TRUSTED_UID,
        trace_packet::TIMESTAMP,
        trace_packet::TRUSTED_PACKET_SEQUENCE_ID,
        trace_packet::FOR_TESTING,
    ];
    assert_eq!(fields, allowed);
    let stats = trace::stats(&stats).message(trace_stats::FILTER_STATS);
    assert_eq!(stats.number(filter_stats::ERRORS), 0);
    // Statistics follow the last filtered packet, or count themselves.
    let passed = stats.number(filter_stats::INPUT_PACKETS);
    assert!(
        [0, 1].contains(&(passed - others.len() as u64)),
        "{passed} packets"
    );
    let shrunk = stats.number(filter_stats::OUTPUT_BYTES);
    assert!(shrunk < stats.number(filter_stats::INPUT_BYTES));
}
