//! The packets returned by ReadBuffers, and their order.

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::TraceConfig;
use ferretto_proto::fields::trace_packet as f;
use ferretto_service::ClientId;
use ferretto_wire::Fields;

use crate::world::{ConfigBuilder, Packet, TEST_FIELD, World, texts};

fn recorded(change: impl FnOnce(&mut TraceConfig)) -> (World, ClientId) {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p").with(change));
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["data"]);
    (world, consumer)
}

fn kinds(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(Packet::kind).collect()
}

#[test]
fn service_049_order_of_the_first_batch() {
    let (mut world, consumer) = recorded(|_| {});
    let packets = world.read(consumer);
    let expected = [
        // The initial snapshot, and the first of the ring.
        f::CLOCK_SNAPSHOT,
        f::CLOCK_SNAPSHOT,
        f::SYNCHRONIZATION_MARKER,
        f::TRACE_CONFIG,
        f::TRACE_UUID,
        f::TRACE_PROVENANCE,
        f::SYSTEM_INFO,
        // Started, all started.
        f::SERVICE_EVENT,
        f::SERVICE_EVENT,
        TEST_FIELD,
        // Read completely.
        f::SERVICE_EVENT,
        f::TRACE_STATS,
    ];
    assert_eq!(kinds(&packets), expected);
    let events: Vec<_> = packets.iter().filter_map(Packet::event).collect();
    assert_eq!(events, [2, 1, 4]);
    let again = world.read(consumer);
    assert_eq!(kinds(&again), [f::SERVICE_EVENT]);
}

#[test]
fn service_050_each_flag_removes_its_packets_only() {
    let all = kinds(&{
        let (mut world, consumer) = recorded(|_| {});
        world.read(consumer)
    });
    type Flag = fn(&mut ferretto_proto::trace_config::BuiltinDataSource);
    let flags: [(Flag, u32); 4] = [
        (
            |b| b.disable_clock_snapshotting = Some(true),
            f::CLOCK_SNAPSHOT,
        ),
        (|b| b.disable_trace_config = Some(true), f::TRACE_CONFIG),
        (|b| b.disable_system_info = Some(true), f::SYSTEM_INFO),
        (|b| b.disable_service_events = Some(true), f::SERVICE_EVENT),
    ];
    for (set, removed) in flags {
        let (mut world, consumer) =
            recorded(|config| set(config.builtin_data_sources.get_or_insert_default()));
        let expected: Vec<_> = all
            .iter()
            .copied()
            .filter(|kind| *kind != removed)
            .collect();
        assert_eq!(kinds(&world.read(consumer)), expected);
    }
}

#[test]
fn service_052_own_packets_say_who_wrote_them() {
    let (mut world, consumer) = recorded(|_| {});
    for packet in world
        .read(consumer)
        .iter()
        .filter(|packet| !packet.is_data())
    {
        assert_eq!(
            packet.int(f::TRUSTED_UID),
            Some(u64::from(crate::world::SERVICE_UID))
        );
        let marker = packet.has(f::SYNCHRONIZATION_MARKER);
        assert_eq!(packet.int(f::TIMESTAMP_CLOCK_ID), (!marker).then_some(6));
    }
}

#[test]
fn service_053_sequence_ids_begin_at_2_and_stay() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let mut first = world.writer(producer);
    let mut second = world.writer(producer);
    let ids = |world: &mut World| -> Vec<u64> {
        world
            .read(consumer)
            .iter()
            .filter(|p| p.is_data())
            .map(Packet::sequence)
            .collect()
    };
    world.write(producer, &mut first, &["a"]);
    assert_eq!(ids(&mut world), [2]);
    world.write(producer, &mut second, &["b"]);
    world.write(producer, &mut first, &["c"]);
    assert_eq!(ids(&mut world), [2, 3]);
}

#[test]
fn service_054_packets_with_reserved_fields_or_malformed_are_dropped_and_counted() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let mut writer = world.writer(producer);
    // The last five are refused here, but not by upstream.
    let reserved = [
        3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133, 46, 89, 107, 113, 134,
    ];
    for field in reserved {
        writer.new_packet().varint(field, 1);
    }
    writer.write_packet(&[0x0b]);
    writer.write_packet(&[0x0a, 5, 1]);
    world.write(producer, &mut writer, &["good"]);
    assert_eq!(texts(&world.read(consumer)), ["good"]);
    assert_eq!(
        world.stats(consumer).invalid_packets,
        Some(reserved.len() as u64 + 2)
    );
}

#[test]
fn service_055_read_completed_comes_only_with_the_last_batch() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::default().buffer(1024).source("p"));
    let mut writer = world.writer(producer);
    let line = "x".repeat(3000);
    for _ in 0..100 {
        world.write(producer, &mut writer, &[&line]);
    }
    let packets = world.read(consumer);
    assert_eq!(texts(&packets).len(), 100);
    let completed: Vec<_> = (0..packets.len())
        .filter(|i| packets[*i].event() == Some(4))
        .collect();
    // Only statistics follow.
    assert_eq!(completed, [packets.len() - 2]);
}

#[test]
fn service_057_reading_without_a_session_ends_at_once() {
    let mut world = World::new();
    let consumer = world.consumer();
    assert!(world.read(consumer).is_empty());
    // The connection is usable after that.
    world.enable(consumer, ConfigBuilder::new());
    assert!(!world.read(consumer).is_empty());
}

#[test]
fn ipc_056_packets_of_any_size_arrive_whole_with_what_can_be_trusted_at_the_end() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::default().buffer(1024).source("p"));
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["small"]);
    let mut packet = writer.new_packet();
    packet.bytes(TEST_FIELD, &[b'x'; 200_000]);
    drop(packet);
    writer.flush(None);
    world.commit(producer);
    let request = world.call(consumer, Request::ReadBuffers(Default::default()));
    let mut slices = Vec::new();
    for (reply, _) in world.answers(consumer, request) {
        let Some(Reply::ReadBuffers(reply)) = reply else {
            panic!("rejected")
        };
        for slice in &reply.slices {
            let last = slice.last_slice_for_packet.expect("always said");
            slices.push((slice.data.clone().unwrap(), last));
        }
    }
    let packets = world.read_packets(consumer, request);
    let data: Vec<&Packet> = packets.iter().filter(|p| p.is_data()).collect();
    assert_eq!(data.len(), 2);
    assert_eq!(data[1].bytes(TEST_FIELD).unwrap().len(), 200_000);
    let trailer = ferretto_wire::encode(|trailer| {
        trailer.varint(f::TRUSTED_UID, 2000);
        trailer.varint(f::TRUSTED_PACKET_SEQUENCE_ID, 2);
        trailer.varint(f::TRUSTED_PID, 4321);
    });
    // Losses before the first packet of a sequence are possible.
    let first = [
        &trailer[..],
        &ferretto_wire::encode(|e| e.varint(f::PREVIOUS_PACKET_DROPPED, 1)),
    ];
    assert!(data[0].0.ends_with(&first.concat()));
    assert!(data[1].0.ends_with(&trailer));
    let (slice, last) = slices
        .iter()
        .rfind(|(data, _)| data.ends_with(&trailer))
        .unwrap();
    assert!(*last && slice.len() < 130_560);
}

#[test]
fn config_016_primary_clock_is_in_every_snapshot() {
    use ferretto_proto::BuiltinClock;
    let primary = |change: fn(&mut TraceConfig)| -> Vec<u64> {
        let (mut world, consumer) = recorded(change);
        let packets = world.read(consumer);
        let snapshots = packets
            .iter()
            .filter_map(|packet| packet.bytes(f::CLOCK_SNAPSHOT));
        snapshots
            .map(|s| Fields::find(2, s).unwrap().as_u64().unwrap())
            .collect()
    };
    assert_eq!(primary(|_| {}), [6, 6]);
    let monotonic = primary(|config| {
        config
            .builtin_data_sources
            .get_or_insert_default()
            .primary_trace_clock = Some(BuiltinClock::BUILTIN_CLOCK_MONOTONIC);
    });
    assert_eq!(monotonic, [3, 3]);
}

#[test]
fn config_026_a_config_near_the_frame_limit_is_accepted_and_readable() {
    let mut world = World::new();
    let consumer = world.consumer();
    let config = ConfigBuilder::new().with(|config| {
        config.activate_triggers = vec![vec![b'x'; 1000]; 127];
    });
    let session = world.enable(consumer, config);
    assert_eq!(world.ended(consumer, session), None);
    let packets = world.read(consumer);
    assert!(packets.iter().any(|packet| packet.has(f::TRACE_CONFIG)));
}

#[test]
fn snapshots_markers_and_statistics_come_every_interval() {
    let (mut world, consumer) = recorded(|config| {
        config
            .builtin_data_sources
            .get_or_insert_default()
            .snapshot_interval_ms = Some(500);
    });
    world.read(consumer);
    world.run_for(400);
    assert_eq!(kinds(&world.read(consumer)), [f::SERVICE_EVENT]);
    world.now.realtime += 1_000_000_000;
    world.run_for(600);
    let expected = [
        f::CLOCK_SNAPSHOT,
        f::SYNCHRONIZATION_MARKER,
        f::SERVICE_EVENT,
        f::TRACE_STATS,
    ];
    assert_eq!(kinds(&world.read(consumer)), expected);
}

#[test]
fn a_second_read_takes_over_the_first() {
    let (mut world, consumer) = recorded(|_| {});
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let first = world.call(consumer, Request::ReadBuffers(Default::default()));
    // The first one was short enough to end at once.
    assert!(!world.read_packets(consumer, first).is_empty());
    let producer = *world.producers.keys().next().unwrap();
    let mut writer = world.writer(producer);
    for _ in 0..10 {
        world.write(producer, &mut writer, &["y"]);
    }
    let mut large = world.writer(producer);
    large.new_packet().bytes(TEST_FIELD, &[0; 40_000]);
    large.flush(None);
    world.commit(producer);
    let second = world.call(consumer, Request::ReadBuffers(Default::default()));
    assert_eq!(texts(&world.read_packets(consumer, second)).len(), 11);
}

#[test]
fn freeing_during_a_read_ends_the_stream() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::default().buffer(4096).source("p"));
    let mut writer = world.writer(producer);
    let line = "x".repeat(3000);
    for _ in 0..1000 {
        world.write(producer, &mut writer, &[&line]);
    }
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let read = world.call(consumer, Request::ReadBuffers(Default::default()));
    assert!(world.answers(consumer, read).last().unwrap().1);
    world.free(consumer);
    // A new session does not affect the old stream.
    world.enable(consumer, ConfigBuilder::new());
    world.unstick(consumer);
    let answers = world.answers(consumer, read);
    assert!(!answers.last().unwrap().1);
    let ends = answers.iter().filter(|answer| !answer.1).count();
    assert_eq!(ends, 1);
    let configs = world
        .read(consumer)
        .iter()
        .filter(|p| p.has(f::TRACE_CONFIG))
        .count();
    assert_eq!(configs, 1);
    assert!(matches!(
        answers_kind(&world, consumer, read),
        Some(Reply::ReadBuffers(_))
    ));
}

fn answers_kind(world: &World, consumer: ClientId, request: u64) -> Option<&Reply> {
    world.answers(consumer, request)[0].0
}
