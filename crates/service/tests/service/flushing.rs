//! Flushes, and clearing of incremental state.

use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::trace_stats::FinalFlushOutcome;
use ferretto_service::{ClientId, ServiceOptions};
use ferretto_shm::TraceWriter;
use ferretto_wire::Fields;

use crate::world::{Behaviour, ConfigBuilder, TEST_FIELD, World, texts};

fn flushes(world: &World, producer: ClientId) -> Vec<(Vec<u64>, u64)> {
    let commands = world.producers[&producer].commands.iter();
    commands
        .filter_map(|command| match command {
            Cmd::Flush(flush) => Some((flush.data_source_ids.clone(), flush.flags.unwrap())),
            _ => None,
        })
        .collect()
}

fn silent(world: &mut World, name: &str) -> ClientId {
    let behaviour = Behaviour {
        confirms_flush: false,
        ..Default::default()
    };
    let producer = world.producer_with(name, behaviour);
    world.register(producer, name);
    producer
}

#[test]
fn a_flush_makes_producers_commit() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let mut writer = world.writer(producer);
    writer.new_packet().string(TEST_FIELD, "held");
    writer.flush(None);
    let flush = world.flush(consumer, 0);
    assert_eq!(world.flushed(consumer, flush), Some(true));
    assert_eq!(texts(&world.read(consumer)), ["held"]);
    assert_eq!(flushes(&world, producer), [(vec![1], 0)]);
}

#[test]
fn parts_of_the_program_have_the_whole_timeout() {
    let mut world = World::with(ServiceOptions {
        trusted_pid: Some(4321),
        ..ServiceOptions::default()
    });
    let own = silent(&mut world, "own");
    let behaviour = Behaviour {
        pid: Some(4322),
        confirms_flush: false,
        ..Default::default()
    };
    let other = world.producer_with("other", behaviour);
    world.register(other, "other");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("own").source("other");
    world.enable(consumer, config);
    let flush = world.flush(consumer, 0);
    // The other one has two seconds.
    world.run_for(4999);
    assert_eq!(world.flushed(consumer, flush), None);
    world.run_for(1);
    assert_eq!(world.flushed(consumer, flush), Some(false));
    assert_eq!(flushes(&world, own).len(), 1);
}

#[test]
fn service_044_and_ipc_058_a_flush_nobody_confirms_fails_in_time() {
    for (asked, configured, expected) in [(300, None, 300), (0, Some(700), 700), (0, None, 2000)] {
        let mut world = World::new();
        silent(&mut world, "p");
        let consumer = world.consumer();
        let config = ConfigBuilder::new()
            .source("p")
            .with(|c| c.flush_timeout_ms = configured);
        world.enable(consumer, config);
        let flush = world.flush(consumer, asked);
        world.run_for(expected - 1);
        assert_eq!(world.flushed(consumer, flush), None);
        world.run_for(1);
        assert_eq!(world.flushed(consumer, flush), Some(false));
        let stats = world.stats(consumer);
        assert_eq!(
            (stats.flushes_requested, stats.flushes_failed),
            (Some(1), Some(1))
        );
        assert!(
            !world
                .read(consumer)
                .iter()
                .any(|packet| packet.event() == Some(8))
        );
    }
}

#[test]
fn service_044_a_slow_flush_at_the_end_is_in_the_trace() {
    let mut world = World::new();
    silent(&mut world, "p");
    world.simple_producer("q");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .source("p")
        .source("q")
        .with(|c| c.duration_ms = Some(1000));
    let session = world.enable(consumer, config);
    world.run_for(6000);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    let packets = world.read(consumer);
    let slow = packets
        .iter()
        .find(|packet| packet.event() == Some(8))
        .unwrap();
    let event = slow.bytes(f::SERVICE_EVENT).unwrap();
    let sources = Fields::find(8, event).unwrap().as_bytes().unwrap();
    let named: Vec<_> = Fields::new(sources)
        .map(|s| s.unwrap().as_bytes().unwrap())
        .collect();
    assert_eq!(named, [b"\x0a\x01p\x12\x01p"]);
    let stats = packets.iter().find_map(|packet| packet.stats()).unwrap();
    assert_eq!(
        stats.final_flush_outcome,
        Some(FinalFlushOutcome::FINAL_FLUSH_FAILED)
    );
}

/// Data that a data source of the machine has not committed is lost with its producer, while other
/// programs lose nothing when they end.
#[test]
fn departed_data_sources_of_the_machine_are_in_the_trace() {
    for stops_first in [false, true] {
        let mut world = World::new();
        let names = ["linux.perf", "android.heapprofd", "program"];
        let producers = names.map(|name| world.simple_producer(name));
        let consumer = world.consumer();
        let config = names
            .iter()
            .fold(ConfigBuilder::new(), |config, name| config.source(name));
        world.enable(consumer, config);
        if stops_first {
            world.disable(consumer);
        }
        for producer in producers {
            world.disconnect(producer);
        }
        world.disable(consumer);
        let packets = world.read(consumer);
        let events: Vec<_> = packets.iter().filter(|p| p.event() == Some(8)).collect();
        if stops_first {
            assert_eq!(
                events.len(),
                0,
                "the data source had already stopped on request"
            );
            continue;
        }
        let event = events[0].bytes(f::SERVICE_EVENT).unwrap();
        let sources = Fields::find(8, event).unwrap().as_bytes().unwrap();
        assert_eq!(
            sources,
            b"\x0a\x18\x0a\x0alinux.perf\x12\x0alinux.perf\
              \x0a\x26\x0a\x11android.heapprofd\x12\x11android.heapprofd"
        );
        let event_of = |number| packets.iter().position(|p| p.event() == Some(number));
        assert!(event_of(8) < event_of(5), "the event precedes the end");
    }
}

/// The end waits for another data source, so the first one may leave before it is told to stop.
#[test]
fn data_sources_that_leave_after_the_last_flush_have_lost_nothing() {
    let mut world = World::new();
    let leaving = world.simple_producer("linux.perf");
    silent(&mut world, "linux.ftrace");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .source("linux.perf")
        .source("linux.ftrace")
        .with(|c| c.duration_ms = Some(1000));
    world.enable(consumer, config);
    world.run_for(1000);
    assert_eq!(flushes(&world, leaving).len(), 1);
    world.disconnect(leaving);
    world.disable(consumer);
    let packets = world.read(consumer);
    assert!(packets.iter().all(|packet| packet.event() != Some(8)));
}

#[test]
fn service_039_the_end_of_the_duration_flushes_then_stops() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .source("p")
        .with(|c| c.duration_ms = Some(1000));
    let session = world.enable(consumer, config);
    let mut writer = world.writer(producer);
    writer.new_packet().string(TEST_FIELD, "held");
    writer.flush(None);
    world.run_for(999);
    assert_eq!(world.ended(consumer, session), None);
    world.run_for(1);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    assert_eq!(
        world.commands(producer),
        ["tracing", "setup", "start", "flush", "stop"]
    );
    assert_eq!(flushes(&world, producer), [(vec![1], 0x12)]);
    let stats = world.stats(consumer);
    assert_eq!(
        stats.final_flush_outcome,
        Some(FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED)
    );
    assert_eq!(texts(&world.read(consumer)), ["held"]);
}

#[test]
fn the_duration_includes_suspend_only_if_requested() {
    for counts in [false, true] {
        let mut world = World::new();
        let consumer = world.consumer();
        let config = ConfigBuilder::new().with(|c| {
            c.duration_ms = Some(1000);
            c.prefer_suspend_clock_for_duration = Some(counts);
        });
        let session = world.enable(consumer, config);
        world.run_for(10);
        world.now.boottime += 2_000_000_000;
        world.run_for(10);
        assert_eq!(world.ended(consumer, session).is_some(), counts);
        world.run_for(1000);
        assert!(world.ended(consumer, session).is_some());
    }
}

#[test]
fn service_045_and_relay_023_sources_that_need_no_flush() {
    let mut world = World::new();
    let producer = world.producer("p");
    world.register_with(producer, "p", |descriptor| descriptor.no_flush = Some(true));
    world.register(producer, "q");
    let remote = Behaviour {
        shares_memory: false,
        scraping: Some(true),
        ..Default::default()
    };
    let remote = world.producer_with("remote", remote);
    world.register_with(remote, "p", |descriptor| descriptor.no_flush = Some(true));
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let flush = world.flush(consumer, 0);
    assert_eq!(world.flushed(consumer, flush), Some(true));
    assert!(flushes(&world, producer).is_empty());
    assert_eq!(flushes(&world, remote), [(vec![], 0)]);
    let other = world.consumer();
    world.enable(other, ConfigBuilder::new().source("p").source("q"));
    world.flush(other, 0);
    let q = world.setups(producer).last().unwrap().0;
    assert_eq!(flushes(&world, producer), [(vec![q], 0)]);
}

#[test]
fn service_046_and_ipc_058_flushes_without_producers_or_before_the_start() {
    let mut world = World::new();
    let consumer = world.consumer();
    let none = world.flush(consumer, 0);
    assert_eq!(
        world.flushed(consumer, none),
        Some(false),
        "an answer even without a session"
    );
    world.enable(
        consumer,
        ConfigBuilder::new().with(|c| c.deferred_start = Some(true)),
    );
    let early = world.flush(consumer, 0);
    assert_eq!(world.flushed(consumer, early), Some(false));
    assert_eq!(world.stats(consumer).flushes_requested, Some(0));
    world.start(consumer);
    let empty = world.flush(consumer, 0);
    assert_eq!(world.flushed(consumer, empty), Some(true));
    assert_eq!(world.stats(consumer).flushes_succeeded, Some(1));
}

#[test]
fn service_047_periodic_flush() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.run_for(130);
    world.enable(
        consumer,
        ConfigBuilder::new()
            .source("p")
            .with(|c| c.flush_period_ms = Some(100)),
    );
    assert!(flushes(&world, producer).is_empty(), "not at once");
    // At multiples of the period on the monotonic clock: 70 ms from here.
    world.run_for(69);
    assert!(flushes(&world, producer).is_empty());
    world.run_for(1);
    assert_eq!(flushes(&world, producer), [(vec![1], 0x11)]);
    world.run_for(250);
    assert_eq!(flushes(&world, producer).len(), 3);
    world.disable(consumer);
    world.run_for(1000);
    assert_eq!(flushes(&world, producer).len(), 3);
}

#[test]
fn service_048_incremental_state_is_cleared_where_wanted() {
    let mut world = World::new();
    let producer = world.producer("p");
    world.register_with(producer, "clears", |descriptor| {
        descriptor.handles_incremental_state_clear = Some(true);
    });
    world.register(producer, "plain");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .source("plain")
        .source("clears")
        .with(|c| {
            c.incremental_state_config
                .get_or_insert_default()
                .clear_period_ms = Some(500);
        });
    world.enable(consumer, config);
    world.run_for(1100);
    let cleared: Vec<_> = world.producers[&producer]
        .commands
        .iter()
        .filter_map(|command| match command {
            Cmd::ClearIncrementalState(clear) => Some(clear.data_source_ids.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(cleared, [[2], [2]]);
}

#[test]
fn too_many_flushes_at_once_fail() {
    let mut world = World::new();
    silent(&mut world, "p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let requests: Vec<_> = (0..1010).map(|_| world.flush(consumer, 60_000)).collect();
    let failed = requests
        .iter()
        .filter(|id| world.is_answered(consumer, **id))
        .count();
    assert_eq!(failed, 9);
    world.free(consumer);
    assert!(
        requests
            .iter()
            .all(|id| world.flushed(consumer, *id) == Some(false))
    );
}

/// Returns a world with a recording, and a producer that confirms no flush, with a registered
/// writer.
fn with_silent_writer(scraping: bool) -> (World, ClientId, ClientId, TraceWriter) {
    let mut world = World::new();
    let behaviour = Behaviour {
        scraping: Some(scraping),
        confirms_flush: false,
        ..Default::default()
    };
    let producer = world.producer_with("p", behaviour);
    world.register(producer, "p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let writer = world.writer(producer);
    world.announce_writers(producer);
    (world, producer, consumer, writer)
}

#[test]
fn scraping_copies_the_chunks_of_a_silent_producer() {
    for scraped in [true, false] {
        let (mut world, producer, consumer, mut writer) = with_silent_writer(scraped);
        for text in ["one", "two", "three"] {
            writer.new_packet().string(TEST_FIELD, text);
        }
        let flush = world.flush(consumer, 100);
        world.run_for(100);
        assert_eq!(world.flushed(consumer, flush), Some(false));
        let expected: &[&str] = if scraped {
            &["one", "two", "three"]
        } else {
            &[]
        };
        assert_eq!(texts(&world.read(consumer)), expected);
        // Later packets are complete and not repeated.
        writer.new_packet().string(TEST_FIELD, "four");
        world.write(producer, &mut writer, &["five"]);
        let rest = texts(&world.read(consumer));
        let all: Vec<_> = expected
            .iter()
            .map(|s| (*s).to_owned())
            .chain(rest)
            .collect();
        assert_eq!(all, ["one", "two", "three", "four", "five"]);
    }
}

/// Complete chunks are in shared memory, and their commit in transit, when the producer is scraped.
#[test]
fn committing_chunks_that_were_scraped_and_read_reports_no_loss() {
    let (mut world, producer, consumer, mut writer) = with_silent_writer(true);
    let long = "x".repeat(1500);
    for _ in 0..12 {
        writer.new_packet().string(TEST_FIELD, &long);
    }
    for _ in 0..2 {
        world.flush(consumer, 100);
        world.run_for(100);
    }
    let scraped = texts(&world.read(consumer)).len();
    assert!(scraped >= 11, "{scraped} of 12");
    // The service remembers these chunks.
    let noted = world.service.inventory().copied_chunks;
    assert!(noted >= 3, "{noted}");
    world.flush(consumer, 100);
    world.run_for(100);
    assert_eq!(texts(&world.read(consumer)).len(), 0);
    for _ in 0..12 {
        writer.new_packet().string(TEST_FIELD, &long);
    }
    world.write(producer, &mut writer, &["last"]);
    let rest = texts(&world.read(consumer));
    assert_eq!(scraped + rest.len(), 25);
    let stats = world.stats(consumer);
    assert_eq!(stats.buffer_stats[0].chunks_discarded, Some(0));
    assert_eq!(stats.chunks_discarded, Some(0));
    assert_eq!(world.service.inventory().copied_chunks, 0);
}

/// After two seconds, the operator gets a report of the data sources that delay the end of a
/// session, for the flush or for the stop.
#[test]
fn data_sources_that_delay_the_end_of_a_session_are_reported() {
    for stop in [false, true] {
        let mut world = World::new();
        let behaviour = Behaviour {
            confirms_flush: stop,
            confirms_stop: false,
            ..Default::default()
        };
        let stuck = world.producer_with("stuck", behaviour);
        world.register_with(stuck, "stuck.source", |d| {
            d.will_notify_on_stop = Some(true);
        });
        world.simple_producer("fine");
        let consumer = world.consumer();
        let config = ConfigBuilder::new()
            .source("stuck.source")
            .source("fine")
            .with(|c| {
                c.duration_ms = Some(100);
                c.flush_timeout_ms = Some(5000);
                c.data_source_stop_timeout_ms = Some(5000);
            });
        let session = world.enable(consumer, config);
        let reported = |world: &World| -> Vec<(bool, Vec<Vec<u8>>)> {
            let sources = |waiting: &ferretto_service::Waiting| {
                let names = waiting.sources.iter().map(|(_, source)| source.clone());
                (waiting.stop, names.collect())
            };
            world.waited_for.iter().map(sources).collect()
        };
        world.run_for(100 + 1999);
        assert_eq!(reported(&world), []);
        world.run_for(1);
        let expected = [(stop, vec![b"stuck.source".to_vec()])];
        assert_eq!(reported(&world), expected);
        // One that missed the flush is not waited for at the stop.
        world.run_for(2999);
        assert_eq!(world.ended(consumer, session), None);
        world.run_for(1);
        assert_eq!(world.ended(consumer, session).as_deref(), Some(""));
        assert_eq!(reported(&world), expected);
    }
}
