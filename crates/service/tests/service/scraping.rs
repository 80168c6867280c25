//! Shared memory that is scraped in pieces, between which clients are served.

use ferretto_ipc::port::consumer::Request;
use ferretto_service::{ClientId, ServiceOptions};
use ferretto_shm::TraceWriter;

use crate::world::{Behaviour, ConfigBuilder, SERVICE_UID, TEST_FIELD, World, texts};

const PACKETS: usize = 200;

/// Returns a world whose pieces are small, with a recording, and a producer that has written much
/// and committed nothing.
fn with_filled_memory(config: ConfigBuilder) -> (World, ClientId, ClientId, TraceWriter) {
    let mut world = World::with(ServiceOptions {
        uid: SERVICE_UID,
        seed: 1,
        scraping_piece: 16,
        ..ServiceOptions::default()
    });
    let behaviour = Behaviour {
        scraping: Some(true),
        confirms_flush: false,
        ..Default::default()
    };
    let producer = world.producer_with("p", behaviour);
    world.register(producer, "p");
    let consumer = world.consumer();
    world.enable(consumer, config.buffer(1024).source("p"));
    let mut writer = world.writer(producer);
    world.announce_writers(producer);
    for number in 0..PACKETS {
        let text = format!("{number:>500}");
        writer.new_packet().string(TEST_FIELD, &text);
    }
    (world, producer, consumer, writer)
}

/// Returns the texts of all packets that were written.
fn all() -> Vec<String> {
    (0..PACKETS)
        .map(|number| format!("{number:>500}"))
        .collect()
}

/// Does one piece. Returns true if there are more.
fn piece(world: &mut World) -> bool {
    let now = world.now;
    world.service.handle_timeout(&now);
    world.carry_out();
    world.service.has_work()
}

#[test]
fn a_flush_of_much_memory_lets_others_be_served() {
    let (mut world, _, consumer, _writer) = with_filled_memory(ConfigBuilder::default());
    let flush = world.flush(consumer, 1);
    world.advance(1_000_000);
    let mut pieces = 0;
    while piece(&mut world) {
        pieces += 1;
        assert_eq!(world.flushed(consumer, flush), None);
        assert_eq!(world.service.poll_timeout(), Some(world.now.boottime));
        // It is work of the producer's user.
        assert_eq!(world.service.user_of_timeout(&world.now), Some(2000));
        let query = world.call(consumer, Request::QueryCapabilities(Default::default()));
        assert!(world.answer(consumer, query).is_some());
    }
    assert!(pieces > 20, "{pieces}");
    assert!(world.flushed(consumer, flush).is_some());
    assert_eq!(texts(&world.read(consumer)), all());
}

#[test]
fn reading_between_the_pieces_of_a_scrape_reports_no_loss() {
    let (mut world, producer, consumer, mut writer) = with_filled_memory(ConfigBuilder::default());
    world.flush(consumer, 1);
    world.advance(1_000_000);
    let (mut read, mut reads) = (Vec::new(), 0);
    while piece(&mut world) {
        let packets = world.read(consumer);
        reads += usize::from(!texts(&packets).is_empty());
        read.extend(packets);
    }
    assert!(reads > 5, "{reads}");
    world.write(producer, &mut writer, &["last"]);
    read.extend(world.read(consumer));
    assert_eq!(texts(&read)[..PACKETS], all());
    assert_eq!(texts(&read)[PACKETS], "last");
    let stats = &world.stats(consumer).buffer_stats[0];
    assert_eq!(stats.chunks_discarded, Some(0));
    assert_eq!(stats.trace_writer_packet_loss, Some(0));
}

#[test]
fn flushes_during_a_scrape_wait_for_another() {
    let (mut world, _, consumer, mut writer) = with_filled_memory(ConfigBuilder::default());
    let first = world.flush(consumer, 1);
    world.advance(1_000_000);
    for _ in 0..5 {
        assert!(piece(&mut world));
    }
    writer.new_packet().string(TEST_FIELD, "later");
    let second = world.flush(consumer, 1);
    world.advance(1_000_000);
    while world.flushed(consumer, first).is_none() {
        assert_eq!(world.flushed(consumer, second), None);
        piece(&mut world);
    }
    world.run_for(0);
    assert!(world.flushed(consumer, second).is_some());
    let texts = texts(&world.read(consumer));
    assert_eq!((texts.len(), &*texts[PACKETS]), (PACKETS + 1, "later"));
}

#[test]
fn the_packets_of_a_producer_that_leaves_come_later() {
    let (mut world, producer, consumer, _writer) = with_filled_memory(ConfigBuilder::default());
    world.disconnect(producer);
    assert!(world.service.has_work());
    world.run_for(0);
    assert_eq!(texts(&world.read(consumer)), all());
    let held = world.service.inventory();
    assert_eq!((held.scrapes, held.writers, held.permissions), (0, 0, 0));
}

#[test]
fn a_session_ends_after_its_last_packets_were_collected() {
    for leaves in [false, true] {
        let (mut world, producer, consumer, _writer) = with_filled_memory(ConfigBuilder::default());
        let session = world.enable(consumer, ConfigBuilder::new());
        assert!(
            world.ended(consumer, session).is_some(),
            "there is one already"
        );
        world.disable(consumer);
        if leaves {
            world.disconnect(producer);
        }
        let sessions = world.state(consumer).tracing_sessions;
        assert_eq!(sessions[0].state.as_deref(), Some(&b"STOP_WAIT"[..]));
        world.run_for(0);
        let sessions = world.state(consumer).tracing_sessions;
        assert_eq!(sessions[0].state.as_deref(), Some(&b"DISABLED"[..]));
        assert_eq!(texts(&world.read(consumer)), all());
        world.free(consumer);
        assert_eq!(world.service.inventory().sessions, 0);
    }
}

#[test]
fn a_freed_session_with_a_file_still_gets_its_packets() {
    let config = ConfigBuilder::default().with(|c| {
        c.write_into_file = Some(true);
        c.output_path = Some("/tmp/trace".into());
        c.file_write_period_ms = Some(100_000);
    });
    let (mut world, _, consumer, _writer) = with_filled_memory(config);
    let flush = world.flush(consumer, 1);
    world.advance(1_000_000);
    assert!(piece(&mut world));
    world.free(consumer);
    assert_eq!(world.flushed(consumer, flush), Some(false));
    world.run_for(0);
    let file = world.files.values().next().expect("a file");
    assert!(file.closed);
    assert_eq!(texts(&crate::world::split_file(&file.bytes)), all());
    assert_eq!(world.service.inventory().sessions, 0);
}

#[test]
fn nothing_is_scraped_for_a_session_that_nobody_can_read() {
    let (mut world, _, consumer, _writer) = with_filled_memory(ConfigBuilder::default());
    let flush = world.flush(consumer, 1);
    world.advance(1_000_000);
    assert!(piece(&mut world));
    world.free(consumer);
    assert!(!world.service.has_work());
    assert_eq!(world.flushed(consumer, flush), Some(false));
    assert_eq!(world.service.inventory().sessions, 0);
}
