//! The items of the shared-memory checklist that concern the service, and not only the memory.

use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_proto::commit_data_request::chunk_to_patch::Patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_proto::{CommitDataRequest, RegisterTraceWriterRequest};
use ferretto_service::ClientId;

use crate::world::{Behaviour, ConfigBuilder, TEST_FIELD, World, texts};

fn recording() -> (World, ClientId, ClientId) {
    recording_with(Behaviour::default())
}

fn recording_with(behaviour: Behaviour) -> (World, ClientId, ClientId) {
    let mut world = World::new();
    let producer = world.producer_with("p", behaviour);
    world.register(producer, "p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    (world, producer, consumer)
}

fn scraped() -> Behaviour {
    Behaviour {
        scraping: Some(true),
        confirms_flush: false,
        ..Behaviour::default()
    }
}

/// Returns a chunk inside a commit: one packet of `payload`, which may have holes.
fn inline(writer: u16, id: u32, packets: u16, payload: &[u8], target: u32) -> ChunksToMove {
    let mut data = id.to_le_bytes().to_vec();
    data.extend(writer.to_le_bytes());
    data.extend(packets.to_le_bytes());
    data.push(payload.len() as u8);
    data.extend(payload);
    ChunksToMove {
        page: Some(0),
        chunk: Some(0),
        target_buffer: Some(target),
        data: Some(data),
        ..Default::default()
    }
}

fn packet(text: &str) -> Vec<u8> {
    ferretto_wire::encode(|packet| packet.string(TEST_FIELD, text))
}

fn commit(world: &mut World, producer: ClientId, request: CommitDataRequest) -> bool {
    let id = world.produce(producer, Request::CommitData(request));
    matches!(world.produced(producer, id), Some(Reply::CommitData(_)))
}

fn moves(chunks_to_move: Vec<ChunksToMove>) -> CommitDataRequest {
    CommitDataRequest {
        chunks_to_move,
        ..Default::default()
    }
}

#[test]
fn shm_010_memory_of_an_impossible_size_is_not_adopted() {
    for (page_hint, size) in [(20 * 1024, 256 * 1024), (0, 256 * 1024), (8192, 20 * 1024)] {
        let (world, producer, _) = recording_with(Behaviour {
            brings: Some(size),
            page_hint,
            ..Behaviour::default()
        });
        let producer = &world.producers[&producer];
        let answer = producer.initialized.as_ref().expect("an answer");
        assert_ne!(answer.using_shmem_provided_by_producer, Some(true));
        assert_eq!(producer.fds, 1, "the service's own memory instead");
    }
}

#[test]
fn shm_012_a_second_session_uses_the_same_memory() {
    let (mut world, producer, _) = recording();
    let second = world.consumer();
    world.enable(second, ConfigBuilder::new().source("p"));
    assert_eq!(world.setups(producer).len(), 2);
    assert_eq!(world.producers[&producer].fds, 1);
}

#[test]
fn shm_034_and_057_a_buffer_that_is_not_the_producers() {
    let (mut world, producer, consumer) = recording();
    let other = world.consumer();
    world.enable(other, ConfigBuilder::new().source("other"));
    let targets = [2, 0, 65_535, 0x1_0001];
    for target in targets {
        let chunk = inline(9, 0, 1, &packet("stray"), target);
        assert!(commit(&mut world, producer, moves(vec![chunk])));
    }
    let discarded = world.stats(consumer).chunks_discarded;
    assert_eq!(discarded, Some(targets.len() as u64));
    assert!(texts(&world.read(consumer)).is_empty());
    assert!(texts(&world.read(other)).is_empty());
}

#[test]
fn shm_035_a_registered_writer_in_another_buffer_of_its_producer() {
    let (mut world, producer, consumer) = recording();
    let other = world.consumer();
    world.enable(other, ConfigBuilder::new().source("p"));
    let register = RegisterTraceWriterRequest {
        trace_writer_id: Some(9),
        target_buffer: Some(1),
        ..Default::default()
    };
    world.produce(producer, Request::RegisterTraceWriter(register));
    let chunks = [(0, 1), (1, 2)].map(|(id, to)| inline(9, id, 1, &packet("mine"), to));
    commit(&mut world, producer, moves(chunks.to_vec()));
    assert_eq!(world.stats(consumer).chunks_discarded, Some(1));
    assert_eq!(texts(&world.read(consumer)), ["mine"]);
    assert!(texts(&world.read(other)).is_empty());
}

#[test]
fn shm_037_and_038_patches_of_a_chunk_in_the_same_request() {
    let (mut world, producer, consumer) = recording();
    // A packet with two holes, of which the last continues into a second chunk.
    let text = |rest: &str| [&b"\xa2\x38\x08"[..], rest.as_bytes()].concat();
    let first = inline(9, 0, 0x1801, &text("\0\0\0\0"), 1);
    let second = inline(9, 1, 0x0401, b"-end", 1);
    let patches = [(4, &b"fil"[..]), (4, b"filled"), (4, b"full")].map(|(offset, data)| Patch {
        offset: Some(offset),
        data: Some(data.to_vec()),
        ..Default::default()
    });
    let request = CommitDataRequest {
        chunks_to_patch: vec![ChunkToPatch {
            target_buffer: Some(1),
            writer_id: Some(9),
            chunk_id: Some(0),
            patches: patches.to_vec(),
            ..Default::default()
        }],
        ..moves(vec![first, second])
    };
    commit(&mut world, producer, request);
    assert_eq!(world.stats(consumer).patches_discarded, Some(2));
    assert_eq!(texts(&world.read(consumer)), ["full-end"]);
}

#[test]
fn shm_044_writers_nobody_knows_and_other_sessions_are_not_scraped() {
    let (mut world, producer, consumer) = recording_with(scraped());
    let mut known = world.writer(producer);
    known.new_packet().string(TEST_FIELD, "known");
    world.announce_writers(producer);
    let mut unknown = world.writer(producer);
    unknown.new_packet().string(TEST_FIELD, "unknown");
    let other = world.consumer();
    world.enable(other, ConfigBuilder::new().source("p"));
    for session in [consumer, other] {
        world.flush(session, 100);
    }
    world.run_for(200);
    assert_eq!(texts(&world.read(consumer)), ["known"]);
    assert!(texts(&world.read(other)).is_empty());
}

#[test]
fn shm_046_a_flush_in_vain_the_end_and_a_disconnect_scrape() {
    for how in ["flush", "disable", "disconnect"] {
        let (mut world, producer, consumer) = recording_with(scraped());
        let mut writer = world.writer(producer);
        writer.new_packet().string(TEST_FIELD, how);
        world.announce_writers(producer);
        match how {
            "flush" => drop(world.flush(consumer, 100)),
            "disable" => world.disable(consumer),
            _ => world.disconnect(producer),
        }
        world.run_for(10_000);
        assert_eq!(texts(&world.read(consumer)), [how]);
    }
}

#[test]
fn shm_056_writer_numbers_no_honest_producer_uses() {
    let (mut world, producer, consumer) = recording();
    let chunks = [0, 0x8000, 0xffff].map(|writer| inline(writer, 0, 1, &packet("odd"), 1));
    assert!(commit(&mut world, producer, moves(chunks.to_vec())));
    let stored = texts(&world.read(consumer)).len() as u64;
    let discarded = world.stats(consumer).chunks_discarded.unwrap();
    assert_eq!(stored + discarded, 3, "each is stored or discarded");
}

#[test]
fn shm_059_a_commit_before_there_is_memory_is_refused() {
    let mut world = World::new();
    let producer = world.producer("p");
    let chunk = inline(9, 0, 1, &packet("early"), 1);
    assert!(!commit(&mut world, producer, moves(vec![chunk])));
}

#[test]
fn shm_060_every_number_there_is_is_registered() {
    let (mut world, producer, consumer) = recording();
    for id in 0..=65_536 {
        let register = RegisterTraceWriterRequest {
            trace_writer_id: Some(id),
            target_buffer: Some(1),
            ..Default::default()
        };
        world.produce(producer, Request::RegisterTraceWriter(register));
    }
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["still served"]);
    assert_eq!(texts(&world.read(consumer)), ["still served"]);
}
