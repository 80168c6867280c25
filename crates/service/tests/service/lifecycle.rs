//! Sessions from start to end.

use std::collections::BTreeMap;

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::observable_events::{DataSourceInstanceState, Type};
use ferretto_proto::{
    AttachRequest, ChangeTraceConfigRequest, DetachRequest, EnableTracingRequest,
    ObserveEventsRequest, TraceConfig,
};
use ferretto_service::ClientId;
use ferretto_wire::Fields;

use crate::world::{Behaviour, ConfigBuilder, TEST_FIELD, World, texts};

fn confirming(world: &mut World, name: &str, behaviour: Behaviour) -> ClientId {
    let producer = world.producer_with(name, behaviour);
    world.register_with(producer, name, |descriptor| {
        descriptor.will_notify_on_start = Some(true);
        descriptor.will_notify_on_stop = Some(true);
    });
    producer
}

fn silent() -> Behaviour {
    Behaviour {
        confirms_start: false,
        confirms_stop: false,
        ..Default::default()
    }
}

fn observe(world: &mut World, consumer: ClientId, types: &[Type]) -> u64 {
    let request = ObserveEventsRequest {
        events_to_observe: types.to_vec(),
        ..Default::default()
    };
    world.call(consumer, Request::ObserveEvents(request))
}

fn started_events(world: &World, consumer: ClientId, request: u64) -> usize {
    let events = world.observed(consumer, request);
    events
        .iter()
        .filter(|event| event.all_data_sources_started == Some(true))
        .count()
}

#[test]
fn service_034_deferred_start() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("p").with(|c| {
        c.deferred_start = Some(true);
        c.duration_ms = Some(100);
    });
    let session = world.enable(consumer, config);
    world.run_for(500);
    assert_eq!(world.commands(producer), ["tracing", "setup"]);
    assert_eq!(world.ended(consumer, session), None);
    world.start(consumer);
    world.start(consumer);
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
    world.run_for(100);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    world.start(consumer);
    assert_eq!(
        world
            .commands(producer)
            .iter()
            .filter(|c| **c == "start")
            .count(),
        1
    );
}

#[test]
fn service_035_and_ipc_061_all_started_is_told_once() {
    let mut world = World::new();
    let consumer = world.consumer();
    let events = observe(&mut world, consumer, &[Type::TYPE_ALL_DATA_SOURCES_STARTED]);
    world.enable(consumer, ConfigBuilder::new());
    assert_eq!(
        started_events(&world, consumer, events),
        1,
        "at once without data sources"
    );
    world.free(consumer);

    let first = confirming(&mut world, "p", silent());
    confirming(&mut world, "q", Behaviour::default());
    world.enable(consumer, ConfigBuilder::new().source("p").source("q"));
    assert_eq!(
        started_events(&world, consumer, events),
        1,
        "p has not confirmed"
    );
    let instance = world.setups(first)[0].0;
    let confirm = || {
        ferretto_ipc::port::producer::Request::NotifyDataSourceStarted(
            ferretto_proto::NotifyDataSourceStartedRequest {
                data_source_id: Some(instance),
                ..Default::default()
            },
        )
    };
    world.produce(first, confirm());
    world.produce(first, confirm());
    assert_eq!(started_events(&world, consumer, events), 2);
    // A new subscription is notified again.
    let late = observe(&mut world, consumer, &[Type::TYPE_ALL_DATA_SOURCES_STARTED]);
    assert_eq!(started_events(&world, consumer, late), 1);
    let ended = world.answers(consumer, events);
    assert!(!ended.last().unwrap().1, "the earlier subscription ended");
}

#[test]
fn a_producer_cannot_confirm_for_others() {
    let mut world = World::new();
    let producer = confirming(&mut world, "p", silent());
    let stranger = world.simple_producer("stranger");
    let consumer = world.consumer();
    let events = observe(&mut world, consumer, &[Type::TYPE_ALL_DATA_SOURCES_STARTED]);
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let instance = world.setups(producer)[0].0;
    let request = ferretto_proto::NotifyDataSourceStartedRequest {
        data_source_id: Some(instance),
        ..Default::default()
    };
    use ferretto_ipc::port::producer::Request as P;
    world.produce(stranger, P::NotifyDataSourceStarted(request.clone()));
    assert_eq!(started_events(&world, consumer, events), 0);
    world.produce(producer, P::NotifyDataSourceStarted(request));
    assert_eq!(started_events(&world, consumer, events), 1);
}

#[test]
fn service_036_slow_starters_are_named() {
    let mut world = World::new();
    let producer = world.producer_with("p", silent());
    for index in 0..40 {
        world.register_with(producer, &format!("s{index}"), |descriptor| {
            descriptor.will_notify_on_start = Some(true);
        });
    }
    let consumer = world.consumer();
    let config = (0..40).fold(ConfigBuilder::new(), |c, index| {
        c.source(&format!("s{index}"))
    });
    world.enable(consumer, config);
    world.run_for(19_999);
    let slow = |world: &mut World| {
        let packets = world.read(consumer);
        let slow = packets
            .into_iter()
            .find(|packet| packet.event() == Some(7))?;
        let event = slow.bytes(f::SERVICE_EVENT).unwrap();
        let sources = Fields::find(7, event).unwrap().as_bytes().unwrap();
        Some(Fields::new(sources).count())
    };
    assert_eq!(slow(&mut world), None);
    world.run_for(1);
    assert_eq!(slow(&mut world), Some(32));
    assert_eq!(slow(&mut world), None);
}

#[test]
fn service_037_stopping_waits_for_those_who_confirm_but_not_for_ever() {
    for timeout in [None, Some(300)] {
        let mut world = World::new();
        let producer = confirming(&mut world, "p", silent());
        world.simple_producer("q");
        let consumer = world.consumer();
        let config = ConfigBuilder::new().source("p").source("q");
        let config = config.with(|c| c.data_source_stop_timeout_ms = timeout);
        let session = world.enable(consumer, config);
        world.disable(consumer);
        world.disable(consumer);
        assert_eq!(
            world.state(consumer).tracing_sessions[0].state.as_deref(),
            Some(&b"STOP_WAIT"[..])
        );
        world.run_for(u64::from(timeout.unwrap_or(2000)) - 1);
        assert_eq!(world.ended(consumer, session), None);
        world.run_for(1);
        assert_eq!(world.ended(consumer, session).unwrap(), "");
        assert_eq!(
            world
                .commands(producer)
                .iter()
                .filter(|c| **c == "stop")
                .count(),
            1
        );
    }
}

#[test]
fn service_009_leaving_completes_a_stop() {
    let mut world = World::new();
    let producer = confirming(&mut world, "p", silent());
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    world.disable(consumer);
    assert_eq!(world.ended(consumer, session), None);
    world.unregister(producer, "p");
    assert_eq!(world.ended(consumer, session).unwrap(), "");
}

#[test]
fn service_038_freeing_a_running_session() {
    let mut world = World::new();
    let producer = confirming(&mut world, "p", silent());
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    let mut writer = world.writer(producer);
    let free = world.call(consumer, Request::FreeBuffers(Default::default()));
    assert!(world.answer(consumer, free).is_some());
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    assert_eq!(world.commands(producer).last(), Some(&"stop"));
    // The reply to FreeBuffers came first.
    let order: Vec<_> = world.consumers[&consumer]
        .answers
        .iter()
        .map(|a| a.request_id)
        .collect();
    assert_eq!(order, [free, session]);
    world.write(producer, &mut writer, &["late"]);
    world.enable(consumer, ConfigBuilder::new());
    assert_eq!(world.stats(consumer).chunks_discarded, Some(1));
}

#[test]
fn service_042_a_consumer_that_leaves_takes_its_session_along() {
    // Configured, started, stopping, disabled.
    for stage in 0..4 {
        let mut world = World::new();
        let producer = confirming(&mut world, "p", silent());
        let consumer = world.consumer();
        let config = ConfigBuilder::new().source("p").with(|c| {
            c.deferred_start = Some(true);
            c.flush_period_ms = Some(100);
        });
        world.enable(consumer, config);
        if stage > 0 {
            world.start(consumer);
            world.flush(consumer, 0);
        }
        if stage > 1 {
            world.disable(consumer);
        }
        if stage > 2 {
            world.run_for(5000);
        }
        world.disconnect(consumer);
        assert_eq!(world.sessions(), 0);
        assert_eq!(
            world
                .commands(producer)
                .iter()
                .filter(|c| **c == "stop")
                .count(),
            1
        );
        world.run_for(100_000);
        assert_eq!(world.service.poll_timeout(), None, "no deadline is left");
    }
}

fn detach(world: &mut World, consumer: ClientId, key: &str) -> bool {
    let request = DetachRequest {
        key: Some(key.into()),
        ..Default::default()
    };
    let id = world.call(consumer, Request::Detach(request));
    world.answer(consumer, id).is_some()
}

fn attach(world: &mut World, consumer: ClientId, key: &str) -> Option<TraceConfig> {
    let request = AttachRequest {
        key: Some(key.into()),
        ..Default::default()
    };
    let id = world.call(consumer, Request::Attach(request));
    match world.answer(consumer, id)? {
        Reply::Attach(reply) => Some((*reply.trace_config).clone()),
        other => panic!("unexpected reply {other:?}"),
    }
}

#[test]
fn service_041_and_ipc_059_detach_and_attach() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let [first, second] = [(); 2].map(|()| world.consumer());
    let foreign = world.consumer_of(77);
    assert!(!detach(&mut world, first, "k"), "no session");
    let config = ConfigBuilder::new().source("p");
    let lost = world.enable(first, config.clone());
    assert!(!detach(&mut world, first, ""), "an empty key is invalid");
    assert!(detach(&mut world, first, "k"));
    assert!(
        !world.is_answered(first, lost),
        "upstream's client treats an answer as a failure"
    );
    // The same key of the same user is in use; that of another user is not.
    world.enable(second, ConfigBuilder::new());
    assert!(!detach(&mut world, second, "k"));
    world.enable(foreign, ConfigBuilder::new());
    assert!(detach(&mut world, foreign, "k"));
    world.free(second);
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["alone"]);
    assert!(attach(&mut world, second, "x").is_none());
    assert!(attach(&mut world, second, "").is_none());
    world.disconnect(first);
    let echoed = attach(&mut world, second, "k").unwrap();
    assert_eq!(echoed, config.0);
    assert!(
        attach(&mut world, second, "k").is_none(),
        "the consumer already has a session"
    );
    let request = EnableTracingRequest {
        attach_notification_only: Some(true),
        ..Default::default()
    };
    let end = world.call(second, Request::EnableTracing(request));
    world.disable(second);
    assert_eq!(world.ended(second, end).unwrap(), "");
    assert_eq!(texts(&world.read(second)), ["alone"]);
}

#[test]
fn service_040_a_detached_session_ends_for_good() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("p").with(|c| {
        c.duration_ms = Some(2000);
        c.write_into_file = Some(true);
        c.output_path = Some(b"/out".to_vec());
    });
    world.enable(consumer, config);
    assert!(detach(&mut world, consumer, "k"));
    world.disconnect(consumer);
    let mut writer = world.writer(producer);
    writer.new_packet().string(TEST_FIELD, "held");
    writer.flush(None);
    world.run_for(2000);
    let file = world.files.values().next().unwrap();
    assert!(file.closed);
    assert_eq!(texts(&crate::world::split_file(&file.bytes)), ["held"]);
    assert_eq!(world.sessions(), 0);
    let other = world.consumer();
    assert!(attach(&mut world, other, "k").is_none());
}

#[test]
fn ipc_060_a_detached_session_without_a_file_is_gone_after_its_duration() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .source("p")
        .with(|c| c.duration_ms = Some(2000));
    world.enable(consumer, config);
    assert!(detach(&mut world, consumer, "k"));
    world.disconnect(consumer);
    world.run_for(1999);
    assert_eq!(world.sessions(), 1);
    world.run_for(1);
    assert_eq!(world.sessions(), 0);
    assert_eq!(world.commands(producer).last(), Some(&"stop"));
    let other = world.consumer();
    assert!(attach(&mut world, other, "k").is_none());
}

#[test]
fn a_session_whose_file_is_being_finished_cannot_be_attached_to() {
    let mut world = World::new();
    let consumer = world.consumer();
    let config = ConfigBuilder::new().with(|c| {
        c.duration_ms = Some(1000);
        c.write_into_file = Some(true);
        c.output_path = Some(b"/out".to_vec());
    });
    world.enable(consumer, config);
    assert!(detach(&mut world, consumer, "k"));
    world.slow = true;
    world.run_for(1000);
    assert!(!world.files.values().next().unwrap().closed);
    assert!(attach(&mut world, consumer, "k").is_none());
    world.deliver_late();
    assert!(world.files.values().next().unwrap().closed);
    assert_eq!(world.sessions(), 0);
}

#[test]
fn ipc_061_instances_are_observed() {
    let mut world = World::new();
    confirming(&mut world, "p", Behaviour::default());
    let consumer = world.consumer();
    let events = observe(&mut world, consumer, &[Type::TYPE_DATA_SOURCES_INSTANCES]);
    let states = |world: &World, request| -> Vec<DataSourceInstanceState> {
        let events = world.observed(consumer, request);
        let changes = events
            .iter()
            .flat_map(|event| &event.instance_state_changes);
        changes
            .map(|change| {
                assert_eq!(change.producer_name.as_deref(), Some(&b"p"[..]));
                assert_eq!(change.data_source_name.as_deref(), Some(&b"p"[..]));
                change.state.unwrap()
            })
            .collect()
    };
    use DataSourceInstanceState as S;
    let (stopped, started) = (
        S::DATA_SOURCE_INSTANCE_STATE_STOPPED,
        S::DATA_SOURCE_INSTANCE_STATE_STARTED,
    );
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    assert_eq!(states(&world, events), [stopped, started]);
    let late = observe(&mut world, consumer, &[Type::TYPE_DATA_SOURCES_INSTANCES]);
    assert_eq!(states(&world, late), [started]);
    world.disable(consumer);
    assert_eq!(states(&world, late), [started, stopped]);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    for nothing in [&[][..], &[Type::TYPE_UNSPECIFIED]] {
        let none = observe(&mut world, consumer, nothing);
        assert!(world.answer(consumer, none).is_some());
        assert!(!world.answers(consumer, late).last().unwrap().1);
    }
}

#[test]
fn a_slow_observer_gets_the_newest_state_of_each_instance() {
    use DataSourceInstanceState as S;
    let mut world = World::new();
    let steady: Vec<_> = (0..300)
        .map(|index| {
            let producer = world.producer(&format!("steady {index} {}", "s".repeat(4000)));
            world.register(producer, "s");
            producer
        })
        .collect();
    let hostile = world.producer(&"h".repeat(4096));
    let consumer = world.consumer();
    let types = [
        Type::TYPE_DATA_SOURCES_INSTANCES,
        Type::TYPE_ALL_DATA_SOURCES_STARTED,
    ];
    let events = observe(&mut world, consumer, &types);
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    // More than a consumer may leave unread.
    let session = world.enable(consumer, ConfigBuilder::new().source("s"));
    for _ in 0..2_000 {
        world.register(hostile, "s");
        world.unregister(hostile, "s");
    }
    world.disconnect(steady[299]);
    assert!(world.sent_bytes(consumer, events) < 512 * 1024);
    world.unstick(consumer);
    // The flood continues while the consumer reads.
    for _ in 0..100 {
        world.register(hostile, "s");
        world.unregister(hostile, "s");
    }
    let mut last = BTreeMap::new();
    let mut of_hostile = 0;
    for event in world.observed(consumer, events) {
        for change in event.instance_state_changes {
            let name = change.producer_name.unwrap();
            of_hostile += usize::from(name[0] == b'h');
            last.insert(name, change.state.unwrap());
        }
    }
    assert_eq!(of_hostile, 300, "no instance that came and went in between");
    assert_eq!(last.len(), 301);
    let started = last
        .iter()
        .filter(|(_, state)| **state == S::DATA_SOURCE_INSTANCE_STATE_STARTED);
    assert_eq!(started.count(), 299);
    assert_eq!(started_events(&world, consumer, events), 1);
    assert_eq!(world.ended(consumer, session), None);
    assert!(world.disconnects.is_empty());
}

#[test]
fn service_078_more_producers_for_a_running_session() {
    let mut world = World::new();
    let producers = ["a", "b", "c"].map(|name| {
        let producer = world.producer(name);
        world.register(producer, "s");
        producer
    });
    let consumer = world.consumer();
    let filtered = |names: &[&str]| {
        ConfigBuilder::new().source("s").with(|c| {
            c.data_sources[0].producer_name_filter =
                names.iter().map(|name| name.as_bytes().to_vec()).collect();
        })
    };
    world.enable(consumer, filtered(&["a"]));
    let change = |world: &mut World, config: ConfigBuilder| {
        let request = ChangeTraceConfigRequest {
            trace_config: config.0.into(),
            ..Default::default()
        };
        let id = world.call(consumer, Request::ChangeTraceConfig(request));
        assert!(world.answer(consumer, id).is_some());
        producers.map(|producer| world.setups(producer).len())
    };
    assert_eq!(change(&mut world, filtered(&["b"]).buffer(4)), [1, 1, 0]);
    assert_eq!(
        world.commands(producers[0]).last(),
        Some(&"start"),
        "no data source is stopped"
    );
    assert_eq!(change(&mut world, filtered(&[])), [1, 1, 1]);
    assert_eq!(change(&mut world, filtered(&[])), [1, 1, 1]);
    assert_eq!(change(&mut world, ConfigBuilder::new()), [1, 1, 1]);
    world.disable(consumer);
    let late = world.producer("d");
    world.register(late, "s");
    change(&mut world, filtered(&[]));
    assert!(world.setups(late).is_empty());
}

#[test]
fn calls_without_a_session_are_harmless() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.start(consumer);
    world.disable(consumer);
    world.free(consumer);
    let stats = world.call(consumer, Request::GetTraceStats(Default::default()));
    assert!(world.answer(consumer, stats).is_none());
    let change = world.call(consumer, Request::ChangeTraceConfig(Default::default()));
    assert!(world.answer(consumer, change).is_some());
}
