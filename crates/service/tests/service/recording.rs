//! Plain recordings, from the config to the packets.

use ferretto_proto::fields::trace_packet as f;

use crate::world::{Behaviour, ConfigBuilder, TEST_FIELD, World, texts};

#[test]
fn a_recording_returns_the_written_packets() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["one", "two"]);
    world.run_for(5000);
    assert_eq!(world.ended(consumer, session), None);
    world.disable(consumer);
    assert_eq!(world.ended(consumer, session).as_deref(), Some(""));
    assert_eq!(
        world.commands(producer),
        ["tracing", "setup", "start", "stop"]
    );
    let packets = world.read(consumer);
    assert_eq!(texts(&packets), ["one", "two"]);
    let data = packets.iter().find(|packet| packet.is_data()).unwrap();
    assert_eq!(data.int(f::TRUSTED_UID), Some(2000));
    assert_eq!(data.int(f::TRUSTED_PID), Some(4321));
    assert_eq!(data.sequence(), 2);
    world.free(consumer);
    assert_eq!(world.sessions(), 0);
}

/// Writes one packet of `size` bytes piece by piece, with commits in between.
fn write_large(world: &mut World, producer: ferretto_service::ClientId, size: usize) {
    let mut writer = world.writer(producer);
    {
        let mut packet = writer.new_packet();
        let header = ferretto_wire::encode(|e| e.bytes(TEST_FIELD, &[]));
        packet.raw(&header[..header.len() - 1]);
        let mut length = [0; 10];
        let digits = ferretto_wire::encode_varint(size as u64, &mut length);
        packet.raw(&length[..digits]);
        let piece = [0x5a; 64 * 1024];
        let mut left = size;
        while left > 0 {
            let now = left.min(piece.len());
            packet.raw(&piece[..now]);
            left -= now;
            world.commit(producer);
        }
    }
    writer.flush(None);
    world.commit(producer);
}

#[test]
fn a_packet_of_20_megabytes_arrives_whole() {
    const SIZE: usize = 20 << 20;
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(
        consumer,
        ConfigBuilder::default().buffer(32 * 1024).source("p"),
    );
    write_large(&mut world, producer, SIZE);
    world.disable(consumer);
    let packets = world.read(consumer);
    let data: Vec<_> = packets.iter().filter(|packet| packet.is_data()).collect();
    assert_eq!(data.len(), 1);
    let bytes = data[0].bytes(TEST_FIELD).unwrap();
    assert_eq!(bytes.len(), SIZE);
    assert!(bytes.iter().all(|byte| *byte == 0x5a));
}

#[test]
fn a_large_packet_waits_for_a_consumer_that_does_not_read() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(
        consumer,
        ConfigBuilder::default().buffer(32 * 1024).source("p"),
    );
    write_large(&mut world, producer, 8 << 20);
    world.disable(consumer);
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let request = world.call(consumer, read_request());
    let sent: usize = world.sent_bytes(consumer, request);
    assert!(
        sent < 512 * 1024,
        "{sent} bytes were sent to a consumer that does not read"
    );
    // Others are served.
    let other = world.consumer();
    world.enable(other, ConfigBuilder::new().source("p"));
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["meanwhile"]);
    assert_eq!(texts(&world.read(other)), ["meanwhile"]);
    assert_eq!(world.sent_bytes(consumer, request), sent);
    world.unstick(consumer);
    let packets = world.read_packets(consumer, request);
    let data = packets.iter().find(|packet| packet.is_data()).unwrap();
    assert_eq!(data.bytes(TEST_FIELD).unwrap().len(), 8 << 20);
}

fn read_request() -> ferretto_ipc::port::consumer::Request {
    ferretto_ipc::port::consumer::Request::ReadBuffers(Default::default())
}

#[test]
fn a_consumer_that_stops_reading_loses_packets_but_blocks_no_one() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::default().buffer(512).source("p"));
    let mut writer = world.writer(producer);
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let mut requests = Vec::new();
    let line = "x".repeat(1000);
    for _ in 0..100 {
        for _ in 0..50 {
            world.write(producer, &mut writer, &[&line]);
        }
        requests.push(world.call(consumer, read_request()));
    }
    assert_eq!(writer.drop_count(), 0, "the producer never had to wait");
    let sent: usize = requests
        .iter()
        .map(|id| world.sent_bytes(consumer, *id))
        .sum();
    assert!(sent < 600 * 1024, "{sent} bytes were sent");
    let stats = world.stats(consumer);
    assert!(
        stats.buffer_stats[0].chunks_overwritten.unwrap() > 0,
        "the loss is counted"
    );
}

#[test]
fn a_producer_killed_within_a_packet_loses_only_that_packet() {
    for scraped in [true, false] {
        let mut world = World::new();
        let behaviour = Behaviour {
            scraping: Some(scraped),
            ..Default::default()
        };
        let producer = world.producer_with("p", behaviour);
        world.register(producer, "p");
        let consumer = world.consumer();
        world.enable(consumer, ConfigBuilder::new().source("p"));
        let mut writer = world.writer(producer);
        world.write(producer, &mut writer, &["committed"]);
        writer.new_packet().string(TEST_FIELD, "finished");
        let mut packet = writer.new_packet();
        packet.string(TEST_FIELD, "unfinished");
        // When the producer is killed, the service only sees the end of the connection.
        world.disconnect(producer);
        std::mem::forget(packet);
        std::mem::forget(writer);
        world.run_for(1000);
        let expected: &[&str] = if scraped {
            &["committed", "finished"]
        } else {
            &["committed"]
        };
        assert_eq!(texts(&world.read(consumer)), expected);
    }
}

#[test]
fn a_packet_with_missing_chunks_is_reported_as_a_loss() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(
        consumer,
        ConfigBuilder::new().source("p").with(|config| {
            use ferretto_proto::trace_config::buffer_config::ExperimentalMode;
            config.buffers[0].experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
        }),
    );
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["first"]);
    {
        let mut packet = writer.new_packet();
        packet.bytes(TEST_FIELD, &[1; 10_000]);
    }
    // The first chunks of the large packet are lost in transit.
    world.lose_commits(producer);
    world.write(producer, &mut writer, &["last"]);
    let packets = world.read(consumer);
    assert_eq!(texts(&packets), ["first", "last"]);
    let last = packets.iter().rfind(|packet| packet.is_data()).unwrap();
    assert_ne!(last.loss(), 0);
}

#[test]
fn many_sessions_share_producers() {
    let mut world = World::new();
    let producers: Vec<_> = (0..20)
        .map(|i| world.simple_producer(&format!("p{i}")))
        .collect();
    for producer in &producers {
        world.register(*producer, "common");
    }
    let consumers: Vec<_> = (0..15).map(|i| world.consumer_of(100 + i)).collect();
    let mut sessions = Vec::new();
    for consumer in &consumers {
        sessions.push(world.enable(
            *consumer,
            ConfigBuilder::default().buffer(256).source("common"),
        ));
    }
    // Each producer writes to the last session.
    for (index, producer) in producers.iter().enumerate() {
        let mut writer = world.writer(*producer);
        world.write(*producer, &mut writer, &[&format!("by {index}")]);
    }
    for (consumer, session) in consumers.iter().zip(&sessions) {
        world.disable(*consumer);
        assert_eq!(world.ended(*consumer, *session).as_deref(), Some(""));
    }
    let counts: Vec<_> = consumers
        .iter()
        .map(|consumer| texts(&world.read(*consumer)).len())
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 20);
    assert_eq!(counts[14], 20);
    for consumer in consumers {
        world.disconnect(consumer);
    }
    assert_eq!(world.sessions(), 0);
    for producer in producers {
        let setups = world
            .commands(producer)
            .iter()
            .filter(|c| **c == "setup")
            .count();
        assert_eq!(setups, 15);
        assert_eq!(
            world
                .commands(producer)
                .iter()
                .filter(|c| **c == "tracing")
                .count(),
            1
        );
    }
}

#[test]
fn the_same_events_give_the_same_trace_and_the_seed_its_uuid() {
    use ferretto_service::ServiceOptions;
    let record = |seed| {
        let mut world = World::with(ServiceOptions {
            seed,
            ..ServiceOptions::default()
        });
        let producer = world.simple_producer("p");
        let consumer = world.consumer();
        world.enable(consumer, ConfigBuilder::new().source("p"));
        let mut writer = world.writer(producer);
        world.write(producer, &mut writer, &["one", "two"]);
        world.run_for(20_000);
        world.disable(consumer);
        world.read(consumer)
    };
    assert_eq!(record(1), record(1));
    let (one, other) = (record(1), record(1 << 64));
    let differ = one
        .iter()
        .zip(&other)
        .filter(|(a, b)| a != b)
        .map(|(a, _)| a.kind());
    assert_eq!(differ.collect::<Vec<_>>(), [f::TRACE_UUID]);
}

#[test]
fn a_trace_has_the_uuid_of_its_config() {
    let mut world = World::new();
    let consumer = world.consumer();
    let config = ConfigBuilder::new().with(|c| {
        c.trace_uuid_msb = Some(-5);
        c.trace_uuid_lsb = Some(7);
    });
    world.enable(consumer, config);
    let packets = world.read(consumer);
    let uuid = packets
        .iter()
        .find_map(|packet| packet.bytes(f::TRACE_UUID))
        .unwrap();
    let part = |number| ferretto_wire::Fields::find(number, uuid).unwrap().as_i64();
    assert_eq!((part(1), part(2)), (Some(-5), Some(7)));
}
