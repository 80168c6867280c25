//! CommitData of faulty or hostile producers.

use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_proto::CommitDataRequest;
use ferretto_proto::commit_data_request::chunk_to_patch::Patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_service::ClientId;

use crate::world::{ConfigBuilder, TEST_FIELD, World, texts};

fn recording() -> (World, ClientId, ClientId) {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().buffer(64).source("p"));
    (world, producer, consumer)
}

fn moved(page: u32, chunk: u32, target: u32) -> ChunksToMove {
    ChunksToMove {
        page: Some(page),
        chunk: Some(chunk),
        target_buffer: Some(target),
        ..Default::default()
    }
}

fn inline(data: Vec<u8>, target: u32) -> ChunksToMove {
    ChunksToMove {
        data: Some(data),
        ..moved(0, 0, target)
    }
}

/// Returns a chunk of writer 7 with one packet of one text.
fn chunk(id: u32, text: &str) -> Vec<u8> {
    let packet = ferretto_wire::encode(|packet| packet.string(TEST_FIELD, text));
    let mut chunk = id.to_le_bytes().to_vec();
    chunk.extend(7_u16.to_le_bytes());
    chunk.extend(1_u16.to_le_bytes());
    chunk.push(packet.len() as u8);
    chunk.extend(packet);
    chunk
}

fn commit(world: &mut World, producer: ClientId, moves: Vec<ChunksToMove>) {
    let request = CommitDataRequest {
        chunks_to_move: moves,
        ..Default::default()
    };
    let id = world.produce(producer, Request::CommitData(request));
    assert!(matches!(
        world.produced(producer, id),
        Some(Reply::CommitData(_))
    ));
}

fn patch(world: &mut World, producer: ClientId, patches: Vec<ChunkToPatch>) {
    let request = CommitDataRequest {
        chunks_to_patch: patches,
        ..Default::default()
    };
    world.produce(producer, Request::CommitData(request));
}

#[test]
fn service_014_and_ipc_050_and_relay_022_a_buffer_never_assigned() {
    let (mut world, producer, consumer) = recording();
    // Buffer 2 exists, buffer 77 does not; neither belongs to this producer.
    for target in [2, 77, 0, 65_535] {
        let before = world.stats(consumer).chunks_discarded.unwrap();
        commit(
            &mut world,
            producer,
            vec![inline(chunk(0, "stray"), target)],
        );
        assert_eq!(world.stats(consumer).chunks_discarded, Some(before + 1));
    }
    let mut writer = world.writer(producer);
    writer.new_packet().string(TEST_FIELD, "also stray");
    writer.flush(None);
    world.lose_commits(producer);
    commit(&mut world, producer, vec![moved(0, 0, 2)]);
    assert_eq!(world.stats(consumer).chunks_discarded, Some(5));
    // Its chunk is freed nevertheless.
    let region = world.producers[&producer].region.clone().unwrap();
    let page = ferretto_shm::PageSize::DEFAULT;
    let free = ferretto_shm::ServiceRegion::new(region, page).unwrap();
    free.for_each_uncommitted(|chunk| panic!("{chunk:?} was left"));
    assert!(texts(&world.read(consumer)).is_empty());
}

#[test]
fn service_015_and_ipc_050_a_writer_pinned_to_another_buffer() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    world.register(producer, "q");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .buffer(64)
        .source("p")
        .source_to("q", 1);
    world.enable(consumer, config);
    let mut writer = world.writer(producer);
    assert_eq!(writer.target_buffer(), 2);
    world.write(producer, &mut writer, &["kept"]);
    let mut data = chunk(5, "pinned elsewhere");
    data[4..6].copy_from_slice(&writer.id().to_le_bytes());
    commit(&mut world, producer, vec![inline(data, 1)]);
    assert_eq!(world.stats(consumer).chunks_discarded, Some(1));
    assert_eq!(texts(&world.read(consumer)), ["kept"]);
}

#[test]
fn service_016_and_ipc_050_and_relay_021_chunks_that_are_not_there() {
    let (mut world, producer, consumer) = recording();
    let mut writer = world.writer(producer);
    writer.new_packet().string(TEST_FIELD, "being written");
    let moves = [
        (0, 0),
        (0, 13),
        (0, 14),
        (63, 0),
        (64, 0),
        (u32::MAX, u32::MAX),
    ];
    commit(
        &mut world,
        producer,
        moves.map(|(page, chunk)| moved(page, chunk, 1)).to_vec(),
    );
    let stats = world.stats(consumer);
    assert_eq!(stats.chunks_discarded, Some(0));
    assert_eq!(stats.buffer_stats[0].chunks_written, Some(0));
    world.write(producer, &mut writer, &[]);
    assert_eq!(texts(&world.read(consumer)), ["being written"]);
}

#[test]
fn service_017_and_ipc_050_and_relay_020_inline_chunks_of_impossible_sizes() {
    let (mut world, producer, consumer) = recording();
    let sizes = [0, 1, 7, 65_536, 65_537];
    for size in sizes {
        commit(&mut world, producer, vec![inline(vec![0; size], 1)]);
    }
    assert_eq!(
        world.stats(consumer).chunks_discarded,
        Some(sizes.len() as u64)
    );
    // The smallest and the largest possible, the latter larger than any chunk in memory.
    for size in [8, 65_535] {
        commit(&mut world, producer, vec![inline(vec![0; size], 1)]);
    }
    commit(&mut world, producer, vec![inline(chunk(1, "good"), 1)]);
    assert_eq!(texts(&world.read(consumer)), ["good"]);
}

fn patched(target: u32, writer: u32, patches: Vec<Patch>) -> ChunkToPatch {
    ChunkToPatch {
        target_buffer: Some(target),
        writer_id: Some(writer),
        chunk_id: Some(0),
        patches,
        ..Default::default()
    }
}

fn patch_of(data: &[u8]) -> Patch {
    Patch {
        offset: Some(4),
        data: Some(data.to_vec()),
        ..Default::default()
    }
}

#[test]
fn service_018_and_ipc_050_patches() {
    let (mut world, producer, consumer) = recording();
    commit(&mut world, producer, vec![inline(chunk(0, "abcdefgh"), 1)]);
    let one = || vec![patch_of(b"WXYZ")];
    let many = |count| vec![patch_of(b"WXYZ"); count];
    patch(
        &mut world,
        producer,
        vec![patched(1, 0, one()), patched(1, 32_768, one())],
    );
    patch(
        &mut world,
        producer,
        vec![patched(77, 7, many(3)), patched(2, 7, one())],
    );
    patch(&mut world, producer, vec![patched(1, 7, many(1025))]);
    assert_eq!(world.stats(consumer).patches_discarded, Some(2 + 4 + 1025));
    let mixed = vec![patch_of(b"abc"), patch_of(b"WXYZ"), Patch::default()];
    patch(&mut world, producer, vec![patched(1, 7, mixed)]);
    let stats = world.stats(consumer);
    assert_eq!(stats.patches_discarded, Some(2 + 4 + 1025 + 2));
    assert_eq!(stats.buffer_stats[0].patches_succeeded, Some(1));
    assert_eq!(texts(&world.read(consumer)), ["WXYZefgh"]);
}

#[test]
fn service_018_patches_outside_their_chunk_or_to_none() {
    let (mut world, producer, consumer) = recording();
    commit(&mut world, producer, vec![inline(chunk(0, "abcdefgh"), 1)]);
    for offset in [9, 10_000, u32::MAX] {
        let wild = Patch {
            offset: Some(offset),
            ..patch_of(b"WXYZ")
        };
        patch(&mut world, producer, vec![patched(1, 7, vec![wild])]);
    }
    patch(
        &mut world,
        producer,
        vec![patched(1, 8, vec![patch_of(b"WXYZ")])],
    );
    assert_eq!(
        world.stats(consumer).buffer_stats[0].patches_failed,
        Some(4)
    );
    assert_eq!(texts(&world.read(consumer)), ["abcdefgh"]);
}

#[test]
fn service_020_and_ipc_049_commits_before_there_is_memory() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let request = CommitDataRequest {
        chunks_to_move: vec![inline(chunk(0, "early"), 1)],
        chunks_to_patch: vec![patched(1, 0, vec![patch_of(b"WXYZ")])],
        flush_request_id: Some(1),
        ..Default::default()
    };
    let id = world.produce(producer, Request::CommitData(request));
    assert!(world.produced(producer, id).is_none());
    let stats = world.stats(consumer);
    assert_eq!(
        (stats.chunks_discarded, stats.patches_discarded),
        (Some(0), Some(0))
    );
}

#[test]
fn service_021_and_043_and_ipc_051_whose_flush_it_is() {
    let mut world = World::new();
    let quiet = crate::world::Behaviour {
        confirms_flush: false,
        ..Default::default()
    };
    let producers = ["a", "b"].map(|name| {
        let producer = world.producer_with(name, quiet.clone());
        world.register(producer, "s");
        producer
    });
    let consumers = [(); 2].map(|()| {
        let consumer = world.consumer();
        world.enable(consumer, ConfigBuilder::new().source("s"));
        consumer
    });
    let acknowledge = |world: &mut World, producer, flush| {
        let request = CommitDataRequest {
            flush_request_id: Some(flush),
            ..Default::default()
        };
        world.produce(producer, Request::CommitData(request));
    };
    let first = world.flush(consumers[0], 0);
    let second = world.flush(consumers[1], 0);
    acknowledge(&mut world, producers[0], 99);
    assert_eq!(world.flushed(consumers[0], first), None);
    // One acknowledgement covers all earlier flushes, of every session.
    acknowledge(&mut world, producers[1], 2);
    assert_eq!(world.flushed(consumers[0], first), Some(true));
    assert_eq!(world.flushed(consumers[1], second), Some(true));
}

#[test]
fn commits_after_the_buffers_are_freed_are_discarded() {
    let (mut world, producer, consumer) = recording();
    let mut writer = world.writer(producer);
    world.free(consumer);
    world.write(producer, &mut writer, &["late"]);
    world.enable(consumer, ConfigBuilder::new());
    assert_eq!(world.stats(consumer).chunks_discarded, Some(1));
    assert!(texts(&world.read(consumer)).is_empty());
}

#[test]
fn commits_while_stopping_and_after_are_kept() {
    let (mut world, producer, consumer) = recording();
    let mut writer = world.writer(producer);
    world.disable(consumer);
    world.write(producer, &mut writer, &["late"]);
    assert_eq!(texts(&world.read(consumer)), ["late"]);
}
