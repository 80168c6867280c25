//! Buffers, as seen by sessions and producers.

use ferretto_ipc::port::consumer::Request as ConsumerRequest;
use ferretto_ipc::port::producer::Request;
use ferretto_proto::commit_data_request::ChunksToMove;
use ferretto_proto::trace_config::buffer_config::ExperimentalMode;
use ferretto_proto::{
    CommitDataRequest, Message, RegisterTraceWriterRequest, TraceConfig,
    UnregisterTraceWriterRequest,
};
use ferretto_service::ClientId;

use crate::world::{ConfigBuilder, TEST_FIELD, World, texts};

fn recording(config: impl Into<TraceConfig>) -> (World, ClientId, ClientId) {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, config);
    (world, producer, consumer)
}

#[test]
fn the_buffer_mode_determines_the_order_of_writers() {
    for (mode, in_turn) in [
        (None, true),
        (Some(ExperimentalMode::TRACE_BUFFER_V2), false),
    ] {
        let mut world = World::new();
        let producers = ["a", "b"].map(|name| {
            let producer = world.producer(name);
            world.register(producer, "p");
            producer
        });
        let consumer = world.consumer();
        let config = ConfigBuilder::default().buffer(4096).source("p");
        world.enable(
            consumer,
            config.with(|c| c.buffers[0].experimental_mode = mode),
        );
        let mut writers = producers.map(|p| [world.writer(p), world.writer(p)]);
        // More than fits one batch, with each writer's last packets long after the first ones of
        // others.
        let long = "x".repeat(1000);
        let mut written = Vec::new();
        for round in 0..30 {
            for (producer, writers) in producers.iter().zip(&mut writers).rev() {
                for (index, writer) in writers.iter_mut().enumerate().rev() {
                    let text = format!("{}{index} {round:02} {long}", producer.0);
                    world.write(*producer, writer, &[&text]);
                    written.push(text);
                }
            }
        }
        if in_turn {
            written.sort();
        }
        let read = texts(&world.read(consumer));
        assert_eq!(read.len(), written.len());
        assert!(read == written, "{mode:?}");
    }
}

#[test]
fn tracebuf_001_the_mode_decides_how_losses_are_told() {
    // Unknown modes are refused, see `config_012`.
    for (mode, first_loss) in [(None, 1), (Some(0), 1), (Some(1), 0)] {
        let config = ferretto_wire::encode(|config| {
            config.nested(1, |buffer| {
                buffer.varint(1, 64);
                if let Some(mode) = mode {
                    buffer.varint(8, mode);
                }
            });
            config.nested(2, |source| source.nested(1, |config| config.string(1, "p")));
        });
        let config = TraceConfig::decode_from_slice(&config).unwrap();
        let (mut world, producer, consumer) = recording(config);
        let mut writer = world.writer(producer);
        world.write(producer, &mut writer, &["one", "two"]);
        let losses: Vec<u64> = world
            .read(consumer)
            .iter()
            .filter(|packet| packet.is_data())
            .map(|packet| packet.loss())
            .collect();
        assert_eq!(losses, [first_loss, 0], "mode {mode:?}");
    }
}

#[test]
fn tracebuf_047_a_long_read_comes_in_parts_and_misses_nothing() {
    let config = ConfigBuilder::default().buffer(4096).source("p");
    let (mut world, producer, consumer) = recording(config);
    let mut writer = world.writer(producer);
    let mut written = Vec::new();
    let mut write = |world: &mut World, count: usize| {
        for _ in 0..count {
            let text = format!("{}:{}", written.len(), "x".repeat(3000));
            world.write(producer, &mut writer, &[&text]);
            written.push(text);
        }
    };
    write(&mut world, 100);
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let request = world.call(consumer, ConsumerRequest::ReadBuffers(Default::default()));
    let mut parts = 0;
    while world
        .answers(consumer, request)
        .last()
        .is_none_or(|(_, has_more)| *has_more)
    {
        // More is committed while the first part is in transit.
        if parts < 5 {
            write(&mut world, 10);
        }
        parts += 1;
        world.unstick(consumer);
        if parts < 5 {
            world.consumers.get_mut(&consumer).unwrap().stuck = true;
        }
        assert!(parts < 1000, "it ends");
    }
    let more = world.answers(consumer, request);
    assert!(more.len() > 3, "{} replies", more.len());
    assert!(more.iter().rev().skip(1).all(|(_, has_more)| *has_more));
    let mut got = texts(&world.read_packets(consumer, request));
    got.extend(texts(&world.read(consumer)));
    assert!(got == written, "{} of {}", got.len(), written.len());
}

#[test]
fn a_buffer_that_fills_as_fast_as_it_is_read_does_not_starve_others() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    world.register(producer, "q");
    let consumer = world.consumer();
    let config = ConfigBuilder::default()
        .buffer(4096)
        .buffer(4096)
        .source("p")
        .source_to("q", 1);
    world.enable(consumer, config);
    let quiet = CommitDataRequest {
        chunks_to_move: vec![inline(7, 0, 0x0001, "quiet", 2)],
        ..Default::default()
    };
    world.produce(producer, Request::CommitData(quiet));
    let mut id = 0;
    let mut fill = |world: &mut World| {
        for _ in 0..4 {
            let text = "x".repeat(20_000);
            let noise = CommitDataRequest {
                chunks_to_move: vec![inline(8, id, 0x0001, &text, 1)],
                ..Default::default()
            };
            id += 1;
            world.produce(producer, Request::CommitData(noise));
        }
    };
    fill(&mut world);
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let request = world.call(consumer, ConsumerRequest::ReadBuffers(Default::default()));
    for _ in 0..6 {
        fill(&mut world);
        world.unstick(consumer);
        world.consumers.get_mut(&consumer).unwrap().stuck = true;
    }
    let got = texts(&world.read_packets(consumer, request));
    assert!(got.iter().any(|text| text == "quiet"), "{}", got.len());
}

/// Returns a chunk inside a commit, with one fragment; `packets` is count and flags as in its
/// header.
fn inline(writer: u16, id: u32, packets: u16, text: &str, target: u32) -> ChunksToMove {
    let packet = ferretto_wire::encode(|packet| packet.string(TEST_FIELD, text));
    let mut data = id.to_le_bytes().to_vec();
    data.extend(writer.to_le_bytes());
    data.extend(packets.to_le_bytes());
    data.extend(ferretto_wire::redundant_length(packet.len() as u32));
    data.extend(packet);
    ChunksToMove {
        page: Some(0),
        chunk: Some(0),
        target_buffer: Some(target),
        data: Some(data),
        ..Default::default()
    }
}

#[test]
fn a_reused_writer_id_is_a_new_writer() {
    const FIRST: u16 = 0x0400;
    const LAST: u16 = 0x0800;
    let (mut world, producer, consumer) = recording(ConfigBuilder::new().source("p"));
    let commit = |world: &mut World, id, flags, text: &str| {
        let request = CommitDataRequest {
            chunks_to_move: vec![inline(7, id, 1 | flags, text, 1)],
            ..Default::default()
        };
        world.produce(producer, Request::CommitData(request));
    };
    let register = Request::RegisterTraceWriter(RegisterTraceWriterRequest {
        trace_writer_id: Some(7),
        target_buffer: Some(1),
        ..Default::default()
    });
    let unregister = Request::UnregisterTraceWriter(UnregisterTraceWriterRequest {
        trace_writer_id: Some(7),
        ..Default::default()
    });
    world.produce(producer, register.clone());
    commit(&mut world, 0, 0, "old");
    commit(&mut world, 1, LAST, "unfinished");
    assert_eq!(texts(&world.read(consumer)), ["old"]);
    world.produce(producer, unregister);
    world.produce(producer, register);
    // A chunk that appears to continue the old writer's packet, then one with an id that was used
    // before.
    commit(&mut world, 2, FIRST, "not to be joined");
    commit(&mut world, 3, 0, "new");
    let packets = world.read(consumer);
    assert_eq!(texts(&packets), ["new"]);
    let data = packets.iter().find(|packet| packet.is_data()).unwrap();
    assert_ne!(data.loss(), 0, "a loss precedes it");
}

#[test]
fn a_packet_of_64_megabytes_reaches_the_consumer() {
    const SIZE: usize = 64 * 1000 * 1000;
    let config = ConfigBuilder::default().buffer(128 * 1024).source("p");
    let (mut world, producer, consumer) = recording(config);
    let body = vec![b'x'; SIZE];
    let packet = ferretto_wire::encode(|packet| packet.bytes(TEST_FIELD, &body));
    let pieces: Vec<_> = packet.chunks(60_000).collect();
    for (id, piece) in (0u32..).zip(&pieces) {
        let mut packets = 1_u16;
        packets |= u16::from(id > 0) << 10;
        packets |= u16::from((id as usize) < pieces.len() - 1) << 11;
        let mut data = id.to_le_bytes().to_vec();
        data.extend(7_u16.to_le_bytes());
        data.extend(packets.to_le_bytes());
        data.extend(ferretto_wire::redundant_length(piece.len() as u32));
        data.extend(*piece);
        let moved = ChunksToMove {
            target_buffer: Some(1),
            data: Some(data),
            ..Default::default()
        };
        let request = CommitDataRequest {
            chunks_to_move: vec![moved],
            ..Default::default()
        };
        world.produce(producer, Request::CommitData(request));
    }
    let packets = world.read(consumer);
    let large = packets.iter().find(|packet| packet.is_data()).unwrap();
    assert!(large.bytes(TEST_FIELD) == Some(&body), "every byte");
    assert_eq!(
        large.loss(),
        1,
        "the older mode reports a loss at the start of a writer"
    );
}
