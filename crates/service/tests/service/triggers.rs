//! Triggers on which sessions start, end or are cloned.

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_ipc::port::producer::Request as Produce;
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::observable_events::{CloneTriggerHit, Type};
use ferretto_proto::trace_config::TriggerConfig;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::{
    ActivateTriggersRequest, CloneSessionRequest, DetachRequest, Message, ObserveEventsRequest,
    TraceConfig, Trigger as TriggerPacket,
};
use ferretto_service::ClientId;

use crate::cloning::{by_name, clone};
use crate::file::null;
use crate::world::{Behaviour, ConfigBuilder, Packet, World, split_file, texts};

const DAY_MS: u64 = 24 * 3600 * 1000;

fn trigger(name: &str, delay_ms: u32) -> Trigger {
    Trigger {
        name: Some(name.into()),
        stop_delay_ms: Some(delay_ms),
        ..Default::default()
    }
}

fn triggered(mode: TriggerMode, triggers: Vec<Trigger>) -> ConfigBuilder {
    ConfigBuilder::new().source("p").with(|c| {
        c.trigger_config = TriggerConfig {
            trigger_mode: Some(mode),
            triggers,
            trigger_timeout_ms: Some(10_000),
            ..Default::default()
        }
        .into();
    })
}

fn activate(world: &mut World, producer: ClientId, names: &[&str]) {
    let request = ActivateTriggersRequest {
        trigger_names: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
        ..Default::default()
    };
    world.produce(producer, Produce::ActivateTriggers(request));
}

fn observe(world: &mut World, consumer: ClientId) -> u64 {
    let request = ObserveEventsRequest {
        events_to_observe: vec![Type::TYPE_CLONE_TRIGGER_HIT],
        ..Default::default()
    };
    world.call(consumer, Request::ObserveEvents(request))
}

fn hits(world: &World, consumer: ClientId, request: u64) -> Vec<CloneTriggerHit> {
    let events = world.observed(consumer, request).into_iter();
    events
        .filter_map(|event| event.clone_trigger_hit.into_option())
        .collect()
}

fn trigger_packets(packets: &[Packet]) -> Vec<(u64, TriggerPacket)> {
    let decode = |bytes| TriggerPacket::decode_from_slice(bytes).unwrap();
    packets
        .iter()
        .filter_map(|packet| {
            let trigger = decode(packet.bytes(f::TRIGGER)?);
            assert_eq!(packet.sequence(), 1);
            assert_eq!(packet.int(f::TIMESTAMP_CLOCK_ID), Some(6));
            Some((packet.int(f::TIMESTAMP)?, trigger))
        })
        .collect()
}

fn config_in(packets: &[Packet]) -> TraceConfig {
    let config = packets
        .iter()
        .find_map(|packet| packet.bytes(f::TRACE_CONFIG));
    TraceConfig::decode_from_slice(config.expect("a config")).unwrap()
}

#[test]
fn service_067_and_config_013_start_trigger_begins_a_session_of_its_delay() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = triggered(TriggerMode::START_TRACING, vec![trigger("go", 500)]);
    let session = world.enable(consumer, config);
    world.run_for(9_999);
    assert_eq!(world.commands(producer), ["tracing", "setup"]);
    assert!(world.read(consumer).is_empty());
    activate(&mut world, producer, &["other", "go"]);
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["data"]);
    world.run_for(499);
    assert_eq!(world.ended(consumer, session), None);
    world.run_for(1);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    let packets = world.read(consumer);
    assert_eq!(texts(&packets), ["data"]);
    assert_eq!(config_in(&packets).duration_ms, Some(500));
}

#[test]
fn service_067_start_trigger_that_never_comes() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = || triggered(TriggerMode::START_TRACING, vec![trigger("go", 500)]);
    let session = world.enable(consumer, config());
    world.run_for(9_999);
    assert_eq!(world.ended(consumer, session), None);
    world.run_for(1);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    assert!(world.read(consumer).is_empty());
    world.free(consumer);

    let into_file = config().with(|c| c.write_into_file = Some(true));
    let session = world.enable_into(consumer, into_file, null());
    world.run_for(10_000);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    let file = world.files.values().next().unwrap();
    assert!(file.closed && file.bytes.is_empty());
    assert!(!world.commands(producer).contains(&"start"));
}

#[test]
fn service_067_start_trigger_into_a_file() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = triggered(TriggerMode::START_TRACING, vec![trigger("go", 6_000)]);
    let config = config.with(|c| c.write_into_file = Some(true));
    let session = world.enable_into(consumer, config, null());
    activate(&mut world, producer, &["go"]);
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["data"]);
    world.run_for(6_000);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    let packets = split_file(&world.files.values().next().unwrap().bytes);
    assert_eq!(texts(&packets), ["data"]);
    assert_eq!(trigger_packets(&packets).len(), 1);
}

#[test]
fn a_start_trigger_without_delay_starts_without_a_limit() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = triggered(TriggerMode::START_TRACING, vec![trigger("go", 0)]);
    let session = world.enable(consumer, config.with(|c| c.deferred_start = Some(true)));
    activate(&mut world, producer, &["go", "go"]);
    world.run_for(DAY_MS);
    assert_eq!(world.ended(consumer, session), None);
    let commands = world.commands(producer);
    assert_eq!(commands.iter().filter(|c| **c == "start").count(), 1);
}

#[test]
fn service_067_and_config_013_only_the_first_stop_trigger_counts() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let triggers = vec![trigger("slow", 800), trigger("fast", 100)];
    let session = world.enable(consumer, triggered(TriggerMode::STOP_TRACING, triggers));
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["data"]);
    world.run_for(9_500);
    assert!(
        world.read(consumer).is_empty(),
        "no data before the trigger"
    );
    activate(&mut world, producer, &["slow"]);
    activate(&mut world, producer, &["fast"]);
    world.run_for(799);
    assert_eq!(
        world.ended(consumer, session),
        None,
        "nor has the session ended by its timeout"
    );
    world.run_for(1);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    let packets = world.read(consumer);
    assert_eq!(texts(&packets), ["data"]);
    assert_eq!(config_in(&packets).duration_ms, Some(10_000));
    let names: Vec<_> = trigger_packets(&packets)
        .into_iter()
        .map(|(_, trigger)| trigger.trigger_name.unwrap())
        .collect();
    assert_eq!(names, [b"slow", b"fast"]);
    let flushes = world.producers[&producer].commands.iter();
    let flags = flushes.filter_map(|command| match command {
        ferretto_proto::get_async_command_response::Cmd::Flush(flush) => flush.flags,
        _ => None,
    });
    assert_eq!(flags.collect::<Vec<_>>(), [0x12]);
}

#[test]
fn service_067_a_stop_trigger_that_never_comes() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = triggered(TriggerMode::STOP_TRACING, vec![trigger("stop", 0)]);
    let session = world.enable(consumer, config);
    world.run_for(10_000);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    assert!(world.read(consumer).is_empty());
    // A late trigger still has its effect.
    activate(&mut world, producer, &["stop"]);
    assert_eq!(trigger_packets(&world.read(consumer)).len(), 1);
}

#[test]
fn a_stop_trigger_ends_a_session_that_has_not_started() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = triggered(TriggerMode::STOP_TRACING, vec![trigger("stop", 10)]);
    let session = world.enable(consumer, config.with(|c| c.deferred_start = Some(true)));
    activate(&mut world, producer, &["stop"]);
    world.run_for(10);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
}

#[test]
fn triggers_without_a_mode_only_make_the_trace_readable() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("p").with(|c| {
        c.trigger_config.get_or_insert_default().triggers = vec![trigger("t", 5)];
    });
    let session = world.enable(consumer, config);
    assert!(world.read(consumer).is_empty());
    activate(&mut world, producer, &["t"]);
    world.run_for(DAY_MS);
    assert_eq!(world.ended(consumer, session), None);
    assert_eq!(trigger_packets(&world.read(consumer)).len(), 1);
}

#[test]
fn service_068_only_meant_producers_at_most_so_often() {
    let mut world = World::new();
    let meant = world.simple_producer("p");
    let stranger = world.producer("p2");
    let consumers = [world.consumer(), world.consumer()];
    let config = triggered(
        TriggerMode::CLONE_SNAPSHOT,
        vec![
            Trigger {
                producer_name_regex: Some(b"p|q.*".to_vec()),
                max_per_24_h: Some(2),
                ..trigger("limited", 0)
            },
            Trigger {
                skip_probability: Some(1.0),
                ..trigger("skipped", 0)
            },
            Trigger {
                skip_probability: Some(0.5),
                ..trigger("sometimes", 0)
            },
        ],
    )
    .with(|c| {
        c.trigger_config.get_or_insert_default().trigger_timeout_ms = Some(7 * 24 * 3600 * 1000)
    });
    let requests = consumers.map(|consumer| {
        world.enable(consumer, config.clone());
        observe(&mut world, consumer)
    });
    let count = |world: &World, which: usize| hits(world, consumers[which], requests[which]).len();
    activate(&mut world, stranger, &["limited"]);
    activate(&mut world, meant, &["skipped"]);
    world.run_for(1);
    assert_eq!((count(&world, 0), count(&world, 1)), (0, 0));
    for _ in 0..3 {
        activate(&mut world, meant, &["limited"]);
        world.run_for(1);
    }
    // Two activations, each for both sessions.
    assert_eq!((count(&world, 0), count(&world, 1)), (2, 2));
    world.run_for(DAY_MS - 3);
    activate(&mut world, meant, &["limited"]);
    world.run_for(1);
    assert_eq!(count(&world, 0), 2, "the first is exactly 24 hours old");
    activate(&mut world, meant, &["limited"]);
    world.run_for(1);
    assert_eq!(count(&world, 0), 3);

    for _ in 0..100 {
        activate(&mut world, meant, &["sometimes"]);
        world.run_for(1);
    }
    let sometimes = count(&world, 0) - 3;
    assert!((25..75).contains(&sometimes), "{sometimes}");
}

#[test]
fn service_069_trigger_packets_once_each() {
    let mut world = World::new();
    let behaviour = Behaviour {
        uid: 77,
        ..Default::default()
    };
    let producer = world.producer_with("p", behaviour);
    let consumer = world.consumer();
    let config = || triggered(TriggerMode::STOP_TRACING, vec![trigger("t", 5_000)]);
    world.enable(consumer, config());
    let first = world.now.boottime;
    activate(&mut world, producer, &["t"]);
    let packets = world.read(consumer);
    let (time, trigger) = &trigger_packets(&packets)[0];
    assert_eq!(*time, first);
    assert_eq!(trigger.trigger_name.as_deref(), Some(&b"t"[..]));
    assert_eq!(trigger.producer_name.as_deref(), Some(&b"p"[..]));
    assert_eq!(trigger.trusted_producer_uid, Some(77));
    assert_eq!(trigger.stop_delay_ms, Some(5_000));
    let kinds: Vec<_> = packets.iter().map(Packet::kind).collect();
    let at = |kind| kinds.iter().position(|k| *k == kind).unwrap();
    assert_eq!(at(f::TRIGGER), at(f::TRACE_CONFIG) + 1);
    assert_eq!(at(f::TRACE_UUID), at(f::TRIGGER) + 1);

    assert!(trigger_packets(&world.read(consumer)).is_empty());
    world.run_for(1);
    activate(&mut world, producer, &["t", "t"]);
    assert_eq!(trigger_packets(&world.read(consumer)).len(), 2);
    world.free(consumer);

    world.enable(
        consumer,
        config().with(|c| {
            let builtin = c.builtin_data_sources.get_or_insert_default();
            builtin.disable_trace_config = Some(true);
        }),
    );
    activate(&mut world, producer, &["t"]);
    let packets = world.read(consumer);
    assert!(!packets.is_empty() && trigger_packets(&packets).is_empty());
}

#[test]
fn service_070_clone_triggers_are_told_after_their_delay() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let request = observe(&mut world, consumer);
    let config = triggered(TriggerMode::STOP_TRACING, vec![trigger("snap", 300)]).with(|c| {
        let triggers = c.trigger_config.get_or_insert_default();
        triggers.use_clone_snapshot_if_available = Some(true);
    });
    world.enable(consumer, config);
    let time = world.now.boottime;
    activate(&mut world, producer, &["snap"]);
    world.run_for(100);
    activate(&mut world, producer, &["snap"]);
    world.run_for(199);
    assert!(hits(&world, consumer, request).is_empty());
    world.run_for(101);
    let reported = hits(&world, consumer, request);
    assert_eq!(reported.len(), 2, "both triggers");
    let id = world.state(consumer).tracing_sessions[0].id.unwrap();
    assert_eq!(reported[0].tracing_session_id, Some(id as i64));
    assert_eq!(reported[0].trigger_name.as_deref(), Some(&b"snap"[..]));
    assert_eq!(reported[0].producer_name.as_deref(), Some(&b"p"[..]));
    assert_eq!(reported[0].producer_uid, Some(2000));
    assert_eq!(reported[0].boot_time_ns, Some(time));
    assert_eq!(reported[0].trigger_delay_ms, Some(300));
    assert!(world.read(consumer).is_empty(), "only its clones are read");

    activate(&mut world, producer, &["snap"]);
    let request = DetachRequest {
        key: Some(b"key".to_vec()),
        ..Default::default()
    };
    let detached = world.call(consumer, Request::Detach(request));
    assert!(matches!(
        world.answer(consumer, detached),
        Some(Reply::Detach(_))
    ));
    let again = observe(&mut world, consumer);
    world.run_for(300);
    assert!(hits(&world, consumer, again).is_empty());
}

#[test]
fn each_clone_contains_the_triggers_since_the_last_one() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let triggers = ["first", "second", "third"].map(|name| trigger(name, 0));
    let config = triggered(TriggerMode::CLONE_SNAPSHOT, triggers.to_vec());
    world.enable(
        consumer,
        config.with(|c| c.unique_session_name = Some(b"s".to_vec())),
    );
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["data"]);
    let mut snapshot = |activated: &[&str]| {
        activate(&mut world, producer, activated);
        let last = activated.last().copied().unwrap_or("third");
        let request = CloneSessionRequest {
            clone_trigger_name: Some(last.into()),
            ..by_name("s")
        };
        let (reader, _) = clone(&mut world, request);
        let packets = world.read(reader);
        assert_eq!(texts(&packets), ["data"]);
        let meant = packets
            .iter()
            .find_map(|p| p.bytes(f::CLONE_SNAPSHOT_TRIGGER));
        let meant = TriggerPacket::decode_from_slice(meant.unwrap()).unwrap();
        assert_eq!(meant.trigger_name.as_deref(), Some(last.as_bytes()));
        let reported = trigger_packets(&packets).into_iter();
        let reported: Vec<_> = reported.map(|(_, t)| t.trigger_name.unwrap()).collect();
        assert_eq!(
            reported,
            activated
                .iter()
                .map(|name| name.as_bytes())
                .collect::<Vec<_>>()
        );
    };
    snapshot(&["first"]);
    snapshot(&["second", "third"]);
    snapshot(&[]);
    snapshot(&["first"]);
}

#[test]
fn a_flood_of_triggers_is_bounded() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let request = observe(&mut world, consumer);
    let config = triggered(TriggerMode::CLONE_SNAPSHOT, vec![trigger("t", 1_000)]);
    world.enable(consumer, config);
    for _ in 0..1_000 {
        activate(&mut world, producer, &["t"; 10]);
    }
    world.run_for(1_000);
    assert_eq!(hits(&world, consumer, request).len(), 64);
    activate(&mut world, producer, &["t"]);
    world.run_for(1_000);
    assert_eq!(hits(&world, consumer, request).len(), 65);

    let reader = world.consumer();
    world.enable(
        reader,
        triggered(TriggerMode::STOP_TRACING, vec![trigger("t", 0)]),
    );
    activate(&mut world, producer, &["t"; 1_000]);
    assert_eq!(trigger_packets(&world.read(reader)).len(), 256);
}
