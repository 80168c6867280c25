//! Producers connect, register data sources, and disconnect.

use std::os::fd::OwnedFd;

use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_proto::tracing_service_state::DataSource;
use ferretto_proto::{
    DataSourceDescriptor, InitializeConnectionRequest, RegisterDataSourceRequest,
    UpdateDataSourceRequest,
};
use ferretto_service::Event;
use ferretto_shm::PageSize;

use crate::world::{Behaviour, ConfigBuilder, World, texts};

#[test]
fn service_001_producers_are_numbered_from_1() {
    let mut world = World::new();
    world.producer("a");
    let b = world.producer("b");
    world.disconnect(b);
    world.producer("c");
    let consumer = world.consumer();
    let producers = world.state(consumer).producers;
    let ids: Vec<_> = producers
        .iter()
        .map(|producer| producer.id.unwrap())
        .collect();
    assert_eq!(ids, [1, 3]);
}

#[test]
fn service_003_memory_brought_along() {
    let bring = |page_hint| {
        let mut world = World::new();
        let behaviour = Behaviour {
            brings: Some(1 << 20),
            page_hint,
            ..Default::default()
        };
        let producer = world.producer_with("p", behaviour);
        world.register(producer, "p");
        (world, producer)
    };
    let (mut world, producer) = bring(4096);
    let reply = world.producers[&producer].initialized.clone().unwrap();
    assert_eq!(reply.using_shmem_provided_by_producer, Some(true));
    assert_eq!(world.commands(producer), ["tracing"]);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
    assert_eq!(world.producers[&producer].fds, 0);
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["through its own memory"]);
    assert_eq!(texts(&world.read(consumer)), ["through its own memory"]);

    for refused in [0, 20480] {
        let (mut world, producer) = bring(refused);
        let reply = world.producers[&producer].initialized.clone().unwrap();
        assert_eq!(reply.using_shmem_provided_by_producer, Some(false));
        assert!(world.commands(producer).is_empty());
        let consumer = world.consumer();
        world.enable(consumer, ConfigBuilder::new().source("p"));
        assert_eq!(world.producers[&producer].fds, 1);
    }
}

#[test]
fn ipc_036_memory_that_cannot_be_mapped_is_refused() {
    let mut world = World::new();
    let producer = world.connect_producer(Behaviour::default());
    let request = InitializeConnectionRequest {
        shared_memory_page_size_hint_bytes: Some(4096),
        producer_provided_shmem: Some(true),
        ..Default::default()
    };
    let fd = std::fs::File::open("/dev/null").unwrap();
    world.event(Event::ProducerRequest {
        client: producer,
        request_id: Some(1),
        request: Request::InitializeConnection(request),
        fd: Some(OwnedFd::from(fd).into()),
    });
    let reply = world.producers[&producer].initialized.clone().unwrap();
    assert_eq!(reply.using_shmem_provided_by_producer, Some(false));
}

#[test]
fn requests_wait_while_memory_is_being_mapped() {
    let mut world = World::new();
    let producer = world.connect_producer(Behaviour {
        page_hint: 4096,
        ..Default::default()
    });
    let region = std::sync::Arc::new(ferretto_shm::Region::heap(1 << 20).unwrap());
    world.brought.push_back(region);
    let initialize = InitializeConnectionRequest {
        shared_memory_page_size_hint_bytes: Some(4096),
        producer_provided_shmem: Some(true),
        ..Default::default()
    };
    let register = RegisterDataSourceRequest {
        data_source_descriptor: ferretto_proto::DataSourceDescriptor {
            name: Some(b"early".to_vec()),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    };
    let fd = OwnedFd::from(std::fs::File::open("/dev/null").unwrap()).into();
    let requests = [
        (Request::InitializeConnection(initialize), Some(fd)),
        (Request::RegisterDataSource(register), None),
    ];
    for (id, (request, fd)) in requests.into_iter().enumerate() {
        let request_id = Some(id as u64);
        let event = Event::ProducerRequest {
            client: producer,
            request_id,
            request,
            fd,
        };
        world.service.handle(&world.now, event);
    }
    world.carry_out();
    assert!(matches!(
        world.produced(producer, 1),
        Some(Reply::RegisterDataSource(_))
    ));
    let consumer = world.consumer();
    assert_eq!(world.state(consumer).data_sources.len(), 1);
}

#[test]
fn service_004_setup_tracing_comes_once_and_first() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    world.register(producer, "q");
    for _ in 0..2 {
        let consumer = world.consumer();
        world.enable(consumer, ConfigBuilder::new().source("p").source("q"));
    }
    let commands = world.commands(producer);
    assert_eq!(commands[0], "tracing");
    assert_eq!(
        commands
            .iter()
            .filter(|command| **command == "tracing")
            .count(),
        1
    );
    assert_eq!(commands.len(), 9);
    assert_eq!(&commands[1..5], ["setup", "setup", "start", "start"]);
}

#[test]
fn a_data_source_without_shared_memory_is_skipped() {
    let mut world = World::new();
    world.memory_available = false;
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    assert!(world.commands(producer).is_empty());
    world.disable(consumer);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    // It recorded nothing, and is named among the data sources that did not answer the last flush.
    let packets = world.read(consumer);
    assert!(packets.iter().any(|packet| packet.event() == Some(8)));
    world.free(consumer);
    world.memory_available = true;
    world.enable(consumer, ConfigBuilder::new().source("p"));
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
}

#[test]
fn ipc_041_nothing_works_before_the_connection_is_initialized_and_that_only_once() {
    let mut world = World::new();
    let producer = world.connect_producer(Behaviour::default());
    let early = world.produce(producer, Request::Sync(Default::default()));
    assert!(world.produced(producer, early).is_none());
    let first = world.produce(producer, Request::InitializeConnection(Default::default()));
    assert!(world.produced(producer, first).is_some());
    let second = world.produce(producer, Request::InitializeConnection(Default::default()));
    assert!(world.produced(producer, second).is_none());
    let late = world.produce(producer, Request::Sync(Default::default()));
    assert!(world.produced(producer, late).is_some());
}

#[test]
fn ipc_042_the_reply_has_all_flags() {
    for shares_memory in [true, false] {
        let mut world = World::new();
        let producer = world.producer_with(
            "p",
            Behaviour {
                shares_memory,
                ..Default::default()
            },
        );
        let reply = world.producers[&producer].initialized.clone().unwrap();
        assert_eq!(reply.using_shmem_provided_by_producer, Some(false));
        assert_eq!(reply.direct_smb_patching_supported, Some(true));
        assert_eq!(reply.use_shmem_emulation, Some(!shares_memory));
    }
}

#[test]
fn ipc_043_commands_wait_for_the_stream() {
    let mut world = World::new();
    let producer = world.producer_with(
        "p",
        Behaviour {
            opens_stream: false,
            ..Default::default()
        },
    );
    world.register(producer, "p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    assert!(world.commands(producer).is_empty());
    world.open_stream(producer);
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
    assert_eq!(world.producers[&producer].fds, 1);
}

#[test]
fn ipc_044_the_stream_may_be_opened_again_or_without_a_reply() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let request = Request::GetAsyncCommand(Default::default());
    world.event(Event::ProducerRequest {
        client: producer,
        request_id: None,
        request,
        fd: None,
    });
    world.open_stream(producer);
    // The first stream ended; SetupTracing is not repeated.
    assert!(
        world.producers[&producer]
            .replies
            .iter()
            .any(|(_, reply)| reply.is_none())
    );
    world.disable(consumer);
    assert_eq!(
        world.commands(producer),
        ["tracing", "setup", "start", "stop"]
    );
}

#[test]
fn chunks_are_inside_commits_if_memory_cannot_be_shared() {
    let mut world = World::new();
    let behaviour = Behaviour {
        shares_memory: false,
        ..Default::default()
    };
    let producer = world.producer_with("p", behaviour);
    world.register(producer, "p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
    assert_eq!(world.producers[&producer].fds, 0);
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["by", "wire"]);
    assert_eq!(texts(&world.read(consumer)), ["by", "wire"]);
}

#[test]
fn service_013_and_config_024_and_relay_017_machines() {
    let mut world = World::new();
    let remote = Behaviour {
        shares_memory: false,
        machine_id: 7,
        machine_name: "far".into(),
        ..Default::default()
    };
    let here = world.simple_producer("here");
    world.register(here, "s");
    let there = world.producer_with("there", remote);
    world.register(there, "s");
    let mut setups = |filter: &[&str], all: bool| {
        let before = (world.setups(here).len(), world.setups(there).len());
        let consumer = world.consumer();
        let config = ConfigBuilder::new().source("s").with(|c| {
            c.trace_all_machines = Some(all);
            c.data_sources[0].machine_name_filter =
                filter.iter().map(|name| name.as_bytes().to_vec()).collect();
        });
        world.enable(consumer, config);
        world.disconnect(consumer);
        (
            world.setups(here).len() - before.0,
            world.setups(there).len() - before.1,
        )
    };
    assert_eq!(setups(&[], false), (1, 0));
    assert_eq!(setups(&[], true), (1, 1));
    assert_eq!(setups(&["host"], true), (1, 0));
    assert_eq!(setups(&["far"], false), (0, 1));
    assert_eq!(setups(&["Linux", "far"], false), (1, 1));
    assert_eq!(setups(&["elsewhere"], true), (0, 0));
}

#[test]
fn service_011_and_012_and_ipc_046_and_config_006_and_008_what_producers_are_told() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    world.register(producer, "q");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("p").source("q").with(|c| {
        let source = c.data_sources[0].config.get_or_insert_default();
        source.session_initiator = Some(
            ferretto_proto::data_source_config::SessionInitiator::SESSION_INITIATOR_TRUSTED_SYSTEM,
        );
        source.tracing_session_id = Some(99);
    });
    world.enable(consumer, config);
    let setups = world.setups(producer);
    assert_eq!(setups.len(), 2);
    for (_, config) in &setups {
        assert_eq!(config.target_buffer, Some(1));
        assert_eq!(config.trace_duration_ms, Some(0));
        assert_eq!(config.tracing_session_id, Some(1));
        assert_eq!(config.enable_extra_guardrails, Some(false));
        assert_eq!(config.stop_timeout_ms, Some(5000));
        assert_eq!(
            config.session_initiator.map(|initiator| initiator as i32),
            Some(0)
        );
        assert_eq!(config.prefer_suspend_clock_for_duration, None);
    }
    let next = world.consumer();
    let config = ConfigBuilder::new().source("p").with(|c| {
        c.prefer_suspend_clock_for_duration = Some(true);
        c.duration_ms = Some(1234);
        c.data_source_stop_timeout_ms = Some(77);
    });
    world.enable(next, config);
    let (_, config) = &world.setups(producer)[2];
    assert_eq!(config.prefer_suspend_clock_for_duration, Some(true));
    assert_eq!(config.trace_duration_ms, Some(1234));
    assert_eq!(config.stop_timeout_ms, Some(77));
    assert_eq!(config.tracing_session_id, Some(2));
}

#[test]
fn service_008_and_ipc_047_late_data_sources_join() {
    let mut world = World::new();
    let consumer = world.consumer();
    let deferred = ConfigBuilder::new()
        .source("s")
        .with(|c| c.deferred_start = Some(true));
    world.enable(consumer, deferred);
    let first = world.simple_producer("s");
    assert_eq!(world.commands(first), ["tracing", "setup"]);
    world.start(consumer);
    assert_eq!(world.commands(first), ["tracing", "setup", "start"]);
    let second = world.simple_producer("s");
    assert_eq!(world.commands(second), ["tracing", "setup", "start"]);
    world.disable(consumer);
    let third = world.simple_producer("s");
    assert!(world.commands(third).is_empty());
}

#[test]
fn ipc_045_instances_have_numbers_of_their_own() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    for _ in 0..3 {
        let consumer = world.consumer();
        world.enable(consumer, ConfigBuilder::new().source("p").source("p"));
        world.disconnect(consumer);
    }
    let numbers: Vec<u64> = world.setups(producer).iter().map(|(id, _)| *id).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn ipc_047_and_048_odd_registrations_succeed_and_do_nothing() {
    let mut world = World::new();
    let producer = world.producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("s").source(""));
    let descriptor = |name: &str, id, no_flush| DataSourceDescriptor {
        name: Some(name.into()),
        id: Some(id),
        no_flush: Some(no_flush),
        ..Default::default()
    };
    let register = |world: &mut World, descriptor: DataSourceDescriptor| {
        let request = RegisterDataSourceRequest {
            data_source_descriptor: descriptor.into(),
            ..Default::default()
        };
        let id = world.produce(producer, Request::RegisterDataSource(request));
        assert!(world.produced(producer, id).is_some());
        world.setups(producer).len()
    };
    assert_eq!(register(&mut world, descriptor("", 1, false)), 0);
    assert_eq!(register(&mut world, descriptor("s", 1, false)), 1);
    assert_eq!(register(&mut world, descriptor("s", 1, false)), 1);
    assert_eq!(register(&mut world, descriptor("t", 1, false)), 1);
    assert_eq!(register(&mut world, descriptor("s", 2, false)), 2);
    let mut update = |name: &str, id| -> usize {
        let request = UpdateDataSourceRequest {
            data_source_descriptor: descriptor(name, id, true).into(),
            ..Default::default()
        };
        let id = world.produce(producer, Request::UpdateDataSource(request));
        assert!(world.produced(producer, id).is_some());
        world.unregister(producer, "unknown");
        let sources = world.state(consumer).data_sources;
        assert_eq!(sources.len(), 2);
        let changed = |s: &&DataSource| s.ds_descriptor.no_flush == Some(true);
        sources.iter().filter(changed).count()
    };
    assert_eq!(update("s", 0), 0);
    assert_eq!(update("s", 3), 0);
    assert_eq!(update("t", 1), 0);
    assert_eq!(update("s", 2), 1);
}

#[test]
fn config_023_a_source_listed_twice_runs_twice() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(
        consumer,
        ConfigBuilder::new()
            .source("p")
            .source("p")
            .source("absent"),
    );
    let commands = world.commands(producer);
    assert_eq!(commands, ["tracing", "setup", "setup", "start", "start"]);
}

#[test]
fn producer_filters_select_producers_by_name() {
    let mut world = World::new();
    let producers = ["app.one", "app.two", "other"].map(|name| {
        let producer = world.producer(name);
        world.register(producer, "s");
        producer
    });
    let mut reached = |exact: &[&str], patterns: &[&str]| {
        let bytes = |names: &[&str]| names.iter().map(|n| n.as_bytes().to_vec()).collect();
        let before = producers.map(|producer| world.setups(producer).len());
        let consumer = world.consumer();
        let config = ConfigBuilder::new().source("s").with(|c| {
            c.data_sources[0].producer_name_filter = bytes(exact);
            c.data_sources[0].producer_name_regex_filter = bytes(patterns);
        });
        world.enable(consumer, config);
        world.disconnect(consumer);
        let after = producers.map(|producer| world.setups(producer).len());
        [
            after[0] - before[0],
            after[1] - before[1],
            after[2] - before[2],
        ]
    };
    assert_eq!(reached(&[], &[]), [1, 1, 1]);
    assert_eq!(reached(&["other"], &[]), [0, 0, 1]);
    assert_eq!(reached(&[], &["app\\..*"]), [1, 1, 0]);
    assert_eq!(reached(&[], &["app"]), [0, 0, 0]);
    assert_eq!(reached(&["other"], &["app.one|nothing"]), [1, 0, 1]);
}

#[test]
fn a_producer_can_disconnect_at_any_time() {
    // A time in milliseconds, and true if the consumer has disabled tracing before.
    for (leaves_after, disables) in [(0, false), (10, false), (10, true)] {
        let mut world = World::new();
        let behaviour = Behaviour {
            confirms_stop: false,
            confirms_start: false,
            confirms_flush: false,
            ..Default::default()
        };
        let producer = world.producer_with("p", behaviour);
        world.register_with(producer, "p", |descriptor| {
            descriptor.will_notify_on_stop = Some(true);
            descriptor.will_notify_on_start = Some(true);
        });
        let consumer = world.consumer();
        let session = world.enable(consumer, ConfigBuilder::new().source("p"));
        world.run_for(leaves_after);
        let flush = world.flush(consumer, 0);
        if disables {
            world.disable(consumer);
            assert_eq!(
                world.ended(consumer, session),
                None,
                "the session waits for the producer"
            );
        }
        world.disconnect(producer);
        assert_eq!(
            world.flushed(consumer, flush),
            Some(true),
            "the session waits for no producer"
        );
        if !disables {
            world.disable(consumer);
        }
        assert_eq!(world.ended(consumer, session).unwrap(), "");
    }
}

#[test]
fn a_producer_can_disconnect_before_its_memory_is_ready() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let request = ferretto_ipc::port::consumer::Request::EnableTracing(
        ferretto_proto::EnableTracingRequest {
            trace_config: ConfigBuilder::new().source("p").0.into(),
            ..Default::default()
        },
    );
    let request_id = Some(1000);
    let event = Event::ConsumerRequest {
        client: consumer,
        request_id,
        request,
        fd: None,
    };
    world.service.handle(&world.now, event);
    world
        .service
        .handle(&world.now, Event::Disconnected { client: producer });
    let region = std::sync::Arc::new(ferretto_shm::Region::heap(256 * 1024).unwrap());
    world.service.handle(
        &world.now,
        Event::SharedMemoryReady {
            client: producer,
            region,
        },
    );
    world.producers.remove(&producer);
    world.carry_out();
    world.disable(consumer);
    assert_eq!(world.ended(consumer, 1000).unwrap(), "");
    assert_eq!(PageSize::DEFAULT.bytes(), 4096);
}

#[test]
fn hostile_registrations_are_bounded() {
    let mut world = World::new();
    let producer = world.producer("p");
    for index in 0..5000 {
        world.register(producer, &format!("s{index}"));
    }
    let consumer = world.consumer();
    assert_eq!(world.state(consumer).data_sources.len(), 4096);
    world.disconnect(producer);
    assert!(world.state(consumer).data_sources.is_empty());
}
