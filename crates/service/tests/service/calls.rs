//! Unusual calls: repeated, too early, too late, or without a reply.

use ferretto_ipc::port::{consumer, producer};
use ferretto_proto::{
    ActivateTriggersRequest, CommitDataRequest, DataSourceDescriptor, EnableTracingRequest,
    InitializeConnectionRequest, NotifyDataSourceStartedRequest, NotifyDataSourceStoppedRequest,
    ObserveEventsRequest, RegisterDataSourceRequest, RegisterTraceWriterRequest,
    UnregisterDataSourceRequest, UnregisterTraceWriterRequest, UpdateDataSourceRequest,
    observable_events::Type,
};
use ferretto_service::{ClientId, Event, ServiceOptions};

use crate::world::{Behaviour, ConfigBuilder, SERVICE_UID, TEST_FIELD, World, texts};

/// Returns all calls of the producer port but the one that asks for commands, with instance 1 and
/// writer 1.
fn producer_calls() -> Vec<producer::Request> {
    use producer::Request as R;
    let descriptor = || DataSourceDescriptor {
        name: Some(b"p".to_vec()),
        id: Some(7),
        ..Default::default()
    };
    vec![
        R::RegisterDataSource(RegisterDataSourceRequest {
            data_source_descriptor: descriptor().into(),
            ..Default::default()
        }),
        R::UpdateDataSource(UpdateDataSourceRequest {
            data_source_descriptor: descriptor().into(),
            ..Default::default()
        }),
        R::NotifyDataSourceStarted(NotifyDataSourceStartedRequest {
            data_source_id: Some(1),
            ..Default::default()
        }),
        R::NotifyDataSourceStopped(NotifyDataSourceStoppedRequest {
            data_source_id: Some(1),
            ..Default::default()
        }),
        R::RegisterTraceWriter(RegisterTraceWriterRequest {
            trace_writer_id: Some(1),
            target_buffer: Some(1),
            ..Default::default()
        }),
        R::UnregisterTraceWriter(UnregisterTraceWriterRequest {
            trace_writer_id: Some(1),
            ..Default::default()
        }),
        R::ActivateTriggers(ActivateTriggersRequest {
            trigger_names: vec![b"t".to_vec()],
            ..Default::default()
        }),
        R::Sync(Default::default()),
        R::UnregisterDataSource(UnregisterDataSourceRequest {
            data_source_name: Some(b"p".to_vec()),
            ..Default::default()
        }),
    ]
}

fn consumer_calls() -> Vec<consumer::Request> {
    use consumer::Request as R;
    vec![
        R::StartTracing(Default::default()),
        R::ChangeTraceConfig(Default::default()),
        R::Flush(Default::default()),
        R::GetTraceStats(Default::default()),
        R::ReadBuffers(Default::default()),
        R::ObserveEvents(ObserveEventsRequest {
            events_to_observe: vec![Type::TYPE_ALL_DATA_SOURCES_STARTED],
            ..Default::default()
        }),
        R::QueryServiceState(Default::default()),
        R::QueryCapabilities(Default::default()),
        R::SaveTraceForBugreport(Default::default()),
        R::CloneSession(Default::default()),
        R::Attach(Default::default()),
        R::Detach(Default::default()),
        R::DisableTracing(Default::default()),
        R::FreeBuffers(Default::default()),
    ]
}

fn enable() -> consumer::Request {
    consumer::Request::EnableTracing(EnableTracingRequest {
        trace_config: ConfigBuilder::new().source("p").0.into(),
        ..Default::default()
    })
}

#[test]
fn ipc_018_calls_that_want_no_reply_are_done_and_get_none() {
    let mut world = World::new();
    let consumer = world.consumer();
    let producer = world.simple_producer("p");
    let replies = world.producers[&producer].replies.len();
    let silent = |world: &mut World, request| {
        world.event(Event::ConsumerRequest {
            client: consumer,
            request_id: None,
            request,
            fd: None,
        });
    };
    for session in [false, true] {
        if session {
            silent(&mut world, enable());
            assert_eq!(world.sessions(), 1);
        }
        for request in producer_calls() {
            world.event(Event::ProducerRequest {
                client: producer,
                request_id: None,
                request,
                fd: None,
            });
        }
        for request in consumer_calls() {
            silent(&mut world, request);
        }
        world.run_for(60_000);
        assert_eq!(world.sessions(), 0);
    }
    assert!(world.consumers[&consumer].answers.is_empty());
    assert_eq!(world.producers[&producer].replies.len(), replies);
}

#[test]
fn calls_of_producers_succeed_at_any_time_and_repeatedly() {
    let mut world = World::new();
    let producer = world.producer("p");
    let consumer = world.consumer();
    let each_succeeds = |world: &mut World| {
        for request in producer_calls().into_iter().chain(producer_calls()) {
            let id = world.produce(producer, request);
            assert!(world.produced(producer, id).is_some());
        }
    };
    each_succeeds(&mut world);
    let config = ConfigBuilder::new()
        .source("p")
        .with(|c| c.deferred_start = Some(true));
    let session = world.enable(consumer, config);
    each_succeeds(&mut world);
    world.start(consumer);
    each_succeeds(&mut world);
    assert_eq!(world.ended(consumer, session), None);
    // It records nevertheless.
    world.register(producer, "p");
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["text"]);
    assert_eq!(texts(&world.read(consumer)), ["text"]);
    world.disable(consumer);
    each_succeeds(&mut world);
    world.free(consumer);
    each_succeeds(&mut world);
}

#[test]
fn repeated_calls_of_consumers_change_nothing() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let twice = |world: &mut World, call: fn(&mut World, ClientId)| {
        call(world, consumer);
        call(world, consumer);
    };
    twice(&mut world, World::free);
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    twice(&mut world, World::start);
    twice(&mut world, World::disable);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    twice(&mut world, World::start);
    twice(&mut world, World::free);
    assert_eq!(
        world.commands(producer),
        ["tracing", "setup", "start", "stop"]
    );
    assert_eq!(world.sessions(), 0);
    let all = world.consumers[&consumer].answers.iter();
    let rejected = all.filter(|answer| answer.reply.is_none()).count();
    assert_eq!(rejected, 0);
}

#[test]
fn a_producer_of_the_first_sdk_version_records() {
    // It sends only its name, confirms no start or stop, and registers no writer.
    let mut world = World::new();
    let behaviour = Behaviour {
        confirms_start: false,
        confirms_stop: false,
        ..Default::default()
    };
    let producer = world.connect_producer(behaviour);
    let request = InitializeConnectionRequest {
        producer_name: Some("p".into()),
        ..Default::default()
    };
    world.produce(producer, producer::Request::InitializeConnection(request));
    world.open_stream(producer);
    world.register(producer, "p");
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    let mut writer = world.writer(producer);
    writer.new_packet().string(TEST_FIELD, "text");
    writer.flush(None);
    world.lose_commits(producer);
    let moved = ferretto_proto::commit_data_request::ChunksToMove {
        page: Some(0),
        chunk: Some(0),
        target_buffer: Some(world.target(producer).into()),
        ..Default::default()
    };
    let request = CommitDataRequest {
        chunks_to_move: vec![moved],
        ..Default::default()
    };
    world.produce(producer, producer::Request::CommitData(request));
    let flush = world.flush(consumer, 0);
    assert_eq!(world.flushed(consumer, flush), Some(true));
    world.disable(consumer);
    assert_eq!(world.ended(consumer, session).unwrap(), "");
    assert_eq!(texts(&world.read(consumer)), ["text"]);
}

#[test]
fn chunks_left_in_memory_are_scraped_if_the_producer_allows_it() {
    for by_default in [false, true] {
        for asked in [None, Some(true), Some(false)] {
            let mut world = World::with(ServiceOptions {
                uid: SERVICE_UID,
                scrape_by_default: by_default,
                ..ServiceOptions::default()
            });
            let behaviour = Behaviour {
                scraping: asked,
                ..Default::default()
            };
            let producer = world.producer_with("p", behaviour);
            world.register(producer, "p");
            let consumer = world.consumer();
            world.enable(consumer, ConfigBuilder::new().source("p"));
            let mut writer = world.writer(producer);
            world.announce_writers(producer);
            for text in ["one", "two", "three"] {
                writer.new_packet().string(TEST_FIELD, text);
            }
            world.disconnect(producer);
            let taken = texts(&world.read(consumer)).len();
            assert_eq!(taken > 0, asked.unwrap_or(by_default), "{asked:?}");
        }
    }
}
