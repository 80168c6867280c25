//! Tests of sessions.

use ferretto::in_process::InProcess;
use ferretto_client::ExhaustedPolicy;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::observable_events::Type as ObservableType;
use ferretto_proto::trace_config::TriggerConfig;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::{CloneSessionRequest, TraceConfig};

use super::world::*;

const DROP: ExhaustedPolicy = ExhaustedPolicy::Drop;

fn triggered(mode: TriggerMode) -> TraceConfig {
    TraceConfig {
        trigger_config: TriggerConfig {
            trigger_mode: Some(mode),
            triggers: vec![Trigger {
                name: Some(b"go".to_vec()),
                ..Default::default()
            }],
            trigger_timeout_ms: Some(60_000),
            ..Default::default()
        }
        .into(),
        ..config(64)
    }
}

#[test]
fn a_trigger_of_this_process_ends_a_session() {
    let service = InProcess::new();
    let recorder = Recorder::start(&service, DROP, |writer| write(writer, 1, 10));
    let mut consumer = consumer(&service);
    start(&mut consumer, triggered(TriggerMode::STOP_TRACING));
    assert!(recorder.handle.activate_triggers(&["other", "go"]));
    wait_for_end(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [1]);
}

#[test]
fn a_trigger_starts_a_session() {
    let service = InProcess::new();
    let recorder = Recorder::start(&service, DROP, |writer| write(writer, 1, 10));
    let mut consumer = consumer(&service);
    consumer
        .observe_events(&[ObservableType::TYPE_ALL_DATA_SOURCES_STARTED])
        .unwrap();
    consumer
        .enable_tracing(triggered(TriggerMode::START_TRACING), None)
        .unwrap();
    // The session has started when this query is answered.
    consumer.query_service_state(LIMIT).unwrap();
    assert!(recorder.handle.activate_triggers(&["go"]));
    wait_for_start(&mut consumer);
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [1]);
}

#[test]
fn a_session_is_cloned_while_it_runs() {
    let service = InProcess::new();
    let _recorder = Recorder::start(&service, DROP, |writer| write(writer, 1, 10));
    let mut original = consumer(&service);
    let named = TraceConfig {
        unique_session_name: Some(b"original".to_vec()),
        ..config(64)
    };
    start(&mut original, named);
    let mut copier = consumer(&service);
    let request = CloneSessionRequest {
        selector: Some(Selector::UniqueSessionName("original".into())),
        ..Default::default()
    };
    let cloned = copier.clone_session(request, None, LIMIT).unwrap();
    assert!(!cloned.in_file);
    assert_eq!(numbers(&read(&mut copier)), [1]);
    stop(&mut original);
    assert_eq!(numbers(&read(&mut original)), [1]);
}

#[test]
fn a_session_goes_on_without_its_consumer_if_detached() {
    let service = InProcess::new();
    let recorder = Recorder::start(&service, DROP, |writer| write(writer, 1, 10));
    let mut first = consumer(&service);
    start(&mut first, config(64));
    first.detach("key", LIMIT).unwrap();
    drop(first);
    let mut second = consumer(&service);
    assert!(second.attach("another", LIMIT).is_err());
    second.attach("key", LIMIT).unwrap();
    assert!(recorder.stops.try_recv().is_err(), "it still records");
    stop(&mut second);
    assert_eq!(numbers(&read(&mut second)), [1]);
}

#[test]
fn a_session_ends_with_its_consumer() {
    let service = InProcess::new();
    let recorder = Recorder::start(&service, DROP, |writer| write(writer, 1, 10));
    let mut first = consumer(&service);
    start(&mut first, config(64));
    drop(first);
    recorder.stops.recv_timeout(LIMIT).unwrap();
    // The next session records as usual.
    let mut second = consumer(&service);
    start(&mut second, config(64));
    stop(&mut second);
    assert_eq!(numbers(&read(&mut second)), [1]);
}

#[test]
fn a_deferred_session_is_started_and_queried() {
    let service = InProcess::new();
    let _recorder = Recorder::start(&service, DROP, |writer| write(writer, 1, 10));
    let mut consumer = consumer(&service);
    let types = [ObservableType::TYPE_ALL_DATA_SOURCES_STARTED];
    consumer.observe_events(&types).unwrap();
    let deferred = TraceConfig {
        deferred_start: Some(true),
        ..config(64)
    };
    consumer.enable_tracing(deferred, None).unwrap();
    let state = consumer.query_service_state(LIMIT).unwrap();
    assert_eq!(state.producers.len(), 1);
    assert_eq!(state.producers[0].pid, Some(std::process::id() as i32));
    assert!(
        state.data_sources.iter().any(|source| {
            let descriptor = source.ds_descriptor.as_option();
            descriptor.is_some_and(|d| d.name.as_deref() == Some(b"test.source"))
        }),
        "{state:?}"
    );
    assert!(consumer.query_capabilities(LIMIT).is_ok());
    consumer.start_tracing(LIMIT).unwrap();
    wait_for_start(&mut consumer);
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [1]);
    consumer.free_buffers(LIMIT).unwrap();
    assert!(consumer.trace_stats(LIMIT).is_err(), "it is gone");
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let service = InProcess::new();
    let mut consumer = consumer(&service);
    let mut nowhere = config(64);
    nowhere.buffers.clear();
    nowhere.data_sources[0]
        .config
        .get_or_insert_default()
        .target_buffer = Some(3);
    consumer.enable_tracing(nowhere, None).unwrap();
    let end = consumer.wait_for_end(LIMIT).unwrap().expect("an end");
    assert!(end.error().is_some());
    assert!(consumer.poll_event().is_none());
}
