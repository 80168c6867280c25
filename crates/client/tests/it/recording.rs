//! Recordings through a real service.

use std::sync::mpsc;

use ferretto_client::{CallError, Consumer, ConsumerEvent, Event, ExhaustedPolicy};
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::observable_events::Type as ObservableType;
use ferretto_testing::client::{LIMIT, Recorder, Service, config, producer_at, texts, write_text};
use ferretto_wire::Fields;

/// A duration longer than any test.
const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

fn read(consumer: &mut Consumer) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    packets
}

/// Starts a session and waits until all data sources have started and written their packets.
fn start(consumer: &mut Consumer, config: ferretto_proto::TraceConfig) {
    consumer
        .observe_events(&[ObservableType::TYPE_ALL_DATA_SOURCES_STARTED])
        .unwrap();
    consumer.enable_tracing(config, None).unwrap();
    loop {
        match consumer.poll_event() {
            Some(ConsumerEvent::Observed(events))
                if events.all_data_sources_started == Some(true) =>
            {
                return;
            }
            Some(ConsumerEvent::Observed(_)) => {}
            Some(other) => panic!("{other:?}"),
            None => {
                consumer.wait(LIMIT);
                consumer.process();
            }
        }
    }
}

fn stop(consumer: &mut Consumer) {
    consumer.disable_tracing(LIMIT).unwrap();
    let end = consumer
        .wait_for_end(LIMIT)
        .unwrap()
        .expect("the session ends");
    assert_eq!(end.error(), None);
}

/// Returns a service with a registered producer, and a consumer.
fn connected(
    policy: ExhaustedPolicy,
    write: impl FnMut(&mut ferretto_client::TraceWriter) + Send + 'static,
) -> (Service, Recorder, Consumer) {
    connected_to(Service::start(), policy, write)
}

fn connected_to(
    service: Service,
    policy: ExhaustedPolicy,
    write: impl FnMut(&mut ferretto_client::TraceWriter) + Send + 'static,
) -> (Service, Recorder, Consumer) {
    let mut producer = producer_at(&service.producers);
    ferretto_testing::client::next_event(&mut producer, |event| {
        matches!(event, ferretto_client::Event::Connected)
    });
    let (sender, receiver) = mpsc::channel();
    let recorder = Recorder::start(producer, policy, write);
    // The service processes the registration before this call.
    assert!(recorder.handle.sync(move || sender.send(()).unwrap()));
    recorder.handle.wake();
    receiver.recv_timeout(LIMIT).unwrap();
    let consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    (service, recorder, consumer)
}

#[test]
fn packets_arrive_in_order_with_sequence_flags() {
    let (_service, _recorder, mut consumer) = connected(ExhaustedPolicy::Drop, |writer| {
        for index in 0..100 {
            write_text(writer, format!("packet {index}").as_bytes());
        }
    });
    start(&mut consumer, config(1024));
    consumer.flush(LIMIT).unwrap();
    let packets = read(&mut consumer);
    let expected: Vec<_> = (0..100)
        .map(|index| format!("packet {index}").into_bytes())
        .collect();
    assert_eq!(texts(&packets), expected);
    let first = packets
        .iter()
        .find(|packet| Fields::find(900, packet).is_some())
        .unwrap();
    assert!(
        Fields::find(87, first).is_some(),
        "first packet on its sequence"
    );
    stop(&mut consumer);
    consumer.free_buffers(LIMIT).unwrap();
}

#[test]
fn the_last_packets_arrive_when_the_session_stops() {
    let (_service, _recorder, mut consumer) =
        connected(ExhaustedPolicy::Drop, |writer| write_text(writer, b"only"));
    start(&mut consumer, config(64));
    stop(&mut consumer);
    assert_eq!(texts(&read(&mut consumer)), [b"only"]);
}

#[test]
fn a_packet_of_20_mb_arrives_complete() {
    let body: Vec<u8> = (0..20u32 << 20).map(|index| (index / 11) as u8).collect();
    let expected = body.clone();
    let (_service, _recorder, mut consumer) =
        connected(ExhaustedPolicy::StallThenDrop, move |writer| {
            write_text(writer, &body);
            assert_eq!(writer.drop_count(), 0);
        });
    start(&mut consumer, config(32 * 1024));
    stop(&mut consumer);
    let texts = texts(&read(&mut consumer));
    assert_eq!(texts.len(), 1);
    assert!(texts[0] == expected);
}

#[test]
fn relay_019_over_tcp_chunks_travel_in_commits_of_which_each_fits_a_frame() {
    let body: Vec<u8> = (0..5u32 << 20).map(|index| (index / 13) as u8).collect();
    let expected = body.clone();
    let policy = ExhaustedPolicy::StallThenDrop;
    let (_service, _recorder, mut consumer) =
        connected_to(Service::start_tcp(), policy, move |writer| {
            for index in 0..100 {
                write_text(writer, format!("packet {index}").as_bytes());
            }
            write_text(writer, &body);
            assert_eq!(writer.drop_count(), 0);
        });
    start(&mut consumer, config(16 * 1024));
    stop(&mut consumer);
    let texts = texts(&read(&mut consumer));
    assert_eq!(texts.len(), 101);
    assert_eq!(texts[99], b"packet 99");
    assert!(texts[100] == expected);
}

#[test]
fn the_service_replies_to_queries() {
    let (_service, _recorder, mut consumer) =
        connected(ExhaustedPolicy::Drop, |writer| write_text(writer, b"x"));
    let capabilities = consumer.query_capabilities(LIMIT).unwrap();
    assert_eq!(capabilities.has_query_capabilities, Some(true));
    let state = consumer.query_service_state(LIMIT).unwrap();
    let producer = &state.producers[0];
    assert_eq!(producer.name.as_deref(), Some(&b"test-producer"[..]));
    assert_eq!(producer.sdk_version.as_deref(), Some(&b"test"[..]));
    let source = state.data_sources[0].ds_descriptor.as_option().unwrap();
    assert_eq!(source.name.as_deref(), Some(&b"test.source"[..]));
    assert!(
        consumer.trace_stats(LIMIT).is_err(),
        "there is no session yet"
    );
    start(&mut consumer, config(64));
    let stats = consumer.trace_stats(LIMIT).unwrap();
    assert_eq!(stats.data_sources_registered, Some(1));
    stop(&mut consumer);
}

#[test]
fn a_session_that_cannot_start_ends_with_the_reason() {
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let mut bad = config(64);
    bad.buffers[0].size_kb = Some(0);
    consumer.enable_tracing(bad, None).unwrap();
    let end = consumer.wait_for_end(LIMIT).unwrap().unwrap();
    assert!(end.error().unwrap().contains("buffer"));
}

#[test]
fn a_detached_session_continues_and_can_be_attached() {
    let (service, _recorder, mut first) =
        connected(ExhaustedPolicy::Drop, |writer| write_text(writer, b"kept"));
    start(&mut first, config(64));
    first.detach("key", LIMIT).unwrap();
    assert!(
        first.detach("key", LIMIT).is_err(),
        "it has no session any more"
    );
    drop(first);
    let mut second = Consumer::connect(&service.consumers, LIMIT).unwrap();
    assert!(second.attach("another key", LIMIT).is_err());
    let taken = second.attach("key", LIMIT).unwrap();
    assert_eq!(taken.buffers[0].size_kb, Some(64));
    stop(&mut second);
    assert_eq!(texts(&read(&mut second)), [b"kept"]);
}

#[test]
fn events_that_arrive_with_a_reply_do_not_block_a_wait() {
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start(&mut consumer, config(64));
    // Without producers, the end follows the reply at once.
    consumer.disable_tracing(LIMIT).unwrap();
    while consumer.poll_event().is_none() {
        consumer.wait(HOUR);
        consumer.process();
    }
}

#[test]
fn two_sessions_share_a_producer() {
    let (service, _recorder, mut first) =
        connected(ExhaustedPolicy::Drop, |writer| write_text(writer, b"both"));
    start(&mut first, config(64));
    stop(&mut first);
    let mut second = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start(&mut second, config(64));
    stop(&mut second);
    assert_eq!(texts(&read(&mut first)), [b"both"]);
    assert_eq!(texts(&read(&mut second)), [b"both"]);
}

#[test]
fn over_tcp_a_flush_reads_uncommitted_chunks() {
    let service = Service::start_tcp();
    let mut producer = ferretto_client::Producer::new(ferretto_client::ProducerOptions {
        address: Some(service.producers.clone()),
        scraping: ferretto_client::Scraping::Enabled,
        ..Default::default()
    })
    .unwrap();
    producer.register(ferretto_testing::client::descriptor("test.source"));
    ferretto_testing::client::next_event(&mut producer, |event| matches!(event, Event::Connected));
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(1024), None).unwrap();
    let event = ferretto_testing::client::next_event(&mut producer, |event| {
        matches!(event, Event::Start { .. })
    });
    let Event::Start { instance, config } = event else {
        panic!()
    };
    let handle = producer.handle();
    handle.notify_started(instance);
    let target = config.target_buffer.unwrap();
    let mut writer = handle.create_writer(target, ExhaustedPolicy::Drop);
    write_text(&mut writer, b"first");
    write_text(&mut writer, b"second");
    let flushing = std::thread::spawn(move || {
        consumer.flush(LIMIT).unwrap();
        consumer
    });
    let event = ferretto_testing::client::next_event(&mut producer, |event| {
        matches!(event, Event::Flush { .. })
    });
    let Event::Flush { request_id, .. } = event else {
        panic!()
    };
    handle.flush_done(request_id);
    while !flushing.is_finished() {
        producer.process(std::time::Instant::now());
        std::thread::yield_now();
    }
    let mut consumer = flushing.join().unwrap();
    assert_eq!(
        texts(&read(&mut consumer)),
        [b"first".as_slice(), b"second"]
    );
    // The rest of the chunk follows. Copied packets do not appear twice.
    write_text(&mut writer, b"third");
    drop(writer);
    let (sender, receiver) = mpsc::channel();
    assert!(handle.sync(move || sender.send(()).unwrap()));
    while receiver.try_recv().is_err() {
        producer.process(std::time::Instant::now());
        std::thread::yield_now();
    }
    assert_eq!(texts(&read(&mut consumer)), [b"third"]);
}

#[test]
fn a_session_can_be_detached_and_cloned() {
    let (service, _recorder, mut consumer) =
        connected(ExhaustedPolicy::Drop, |writer| write_text(writer, b"kept"));
    let mut named = config(64);
    named.unique_session_name = Some(b"named".to_vec());
    start(&mut consumer, named);
    consumer.detach("key", LIMIT).unwrap();
    assert!(
        consumer.detach("key", LIMIT).is_err(),
        "the session is already detached"
    );

    let clone = |name: &str| CloneSessionRequest {
        selector: Some(Selector::UniqueSessionName(name.into())),
        ..Default::default()
    };
    let mut copier = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let cloned = copier.clone_session(clone("named"), None, LIMIT).unwrap();
    assert!(!cloned.in_file);
    assert_eq!(texts(&read(&mut copier)), [b"kept"]);
    match consumer.clone_session(clone("other"), None, LIMIT) {
        Err(CallError::Refused { reason, .. }) => assert_eq!(reason, "Tracing session not found"),
        other => panic!("{other:?}"),
    }

    let mut heir = Consumer::connect(&service.consumers, LIMIT).unwrap();
    assert!(heir.attach("wrong", LIMIT).is_err());
    let config = heir.attach("key", LIMIT).unwrap();
    assert_eq!(config.unique_session_name.as_deref(), Some(&b"named"[..]));
    stop(&mut heir);
    assert_eq!(texts(&read(&mut heir)), [b"kept"]);
}
