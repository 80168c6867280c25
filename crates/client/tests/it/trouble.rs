//! Services that are absent, exit or send malformed messages.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

use ferretto_client::{
    Address, CallError, Consumer, ConsumerEvent, Event, ExhaustedPolicy, LostReason, ReadError,
};
use ferretto_ipc::frame;
use ferretto_testing::client::{LIMIT, Service, config, next_event, producer_at, unique_address};
use ferretto_wire::encode;
use proptest::prelude::*;

fn listen(address: &Address) -> UnixListener {
    let Address::Abstract(name) = address else {
        panic!()
    };
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
}

fn disconnected(event: &Event) -> bool {
    matches!(event, Event::Disconnected(_))
}

#[test]
fn a_producer_waits_for_an_absent_service() {
    ferretto_testing::own_process!();
    let (producers, consumers) = (unique_address("producer"), unique_address("consumer"));
    let mut producer = producer_at(&producers);
    let Event::Disconnected(LostReason::Connect(_)) = next_event(&mut producer, disconnected)
    else {
        panic!()
    };
    assert!(producer.poll_timeout().unwrap() > Instant::now());
    let mut writer = producer
        .handle()
        .create_writer(1, ExhaustedPolicy::StallThenAbort);
    ferretto_testing::client::write_text(&mut writer, &[0; 100_000]);
    let _service = Service::start_at(producers, consumers);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    assert!(producer.handle().is_connected());
}

#[test]
fn ipc_030_a_producer_notices_a_new_socket_at_once() {
    ferretto_testing::own_process!();
    let directory = std::env::temp_dir().join(format!("ferretto-watch-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let socket = Address::Path(directory.join("producer.sock"));
    let mut producer = producer_at(&socket);
    // Fails often enough to make the next attempt due after the time limit of this test.
    let start = Instant::now();
    let mut now = start;
    while now < start + 2 * LIMIT {
        producer.process(now);
        now = producer.poll_timeout().unwrap();
    }
    while producer.poll_event().is_some() {}
    let service = Service::start_at(socket, unique_address("consumer"));
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    service.stop();
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn a_producer_reconnects_to_a_restarted_service() {
    ferretto_testing::own_process!();
    let (producers, consumers) = (unique_address("producer"), unique_address("consumer"));
    let service = Service::start_at(producers.clone(), consumers.clone());
    let mut producer = producer_at(&producers);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let mut consumer = Consumer::connect(&consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(64), None).unwrap();
    let Event::Start {
        instance,
        config: source,
    } = next_event(&mut producer, |event| matches!(event, Event::Start { .. }))
    else {
        panic!()
    };
    let handle = producer.handle();
    let policy = ExhaustedPolicy::StallThenAbort;
    let mut writer = handle.create_writer(source.target_buffer.unwrap(), policy);
    assert_ne!(writer.id(), 0);
    ferretto_testing::client::write_text(&mut writer, b"before");
    service.stop();
    let stopped = next_event(&mut producer, |event| matches!(event, Event::Stop { .. }));
    assert!(matches!(stopped, Event::Stop { instance: id } if id == instance));
    next_event(&mut producer, disconnected);
    // A writer of the old connection discards packets: it neither blocks nor aborts.
    for _ in 0..100 {
        ferretto_testing::client::write_text(&mut writer, &[0; 10_000]);
    }
    assert!(writer.is_dropping());
    let _service = Service::start_at(producers, consumers);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    drop(writer);
    assert!(matches!(consumer.wait_for_end(LIMIT), Ok(Some(end)) if end.error().is_some()));
}

/// Answers the first connection with `answers` and then reads until the other side closes it.
fn broken_service(address: &Address, answers: Vec<Vec<u8>>) -> std::thread::JoinHandle<()> {
    let listener = listen(address);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        for answer in answers {
            // Waits for a request first, so that there are open calls when the answers arrive.
            let _ = stream.read(&mut buffer).unwrap();
            let _ = stream.write_all(&answer);
        }
        while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
    })
}

const METHODS: [(u32, &str); 2] = [(1, "InitializeConnection"), (2, "GetAsyncCommand")];

#[test]
fn a_producer_survives_malformed_messages_and_reports_them() {
    ferretto_testing::own_process!();
    let bound = frame::bind_service_reply(1, 1, &METHODS);
    let welcome = frame::method_reply(2, false, 0, |_| {});
    let command = |bytes: &'static [u8]| {
        frame::method_reply(3, true, bytes.len(), |out| out.extend_from_slice(bytes))
    };
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("broke the protocol", vec![vec![0xff; 64]]),
        (
            "does not accept producers",
            vec![frame::bind_service_failed(1)],
        ),
        (
            "lacks essential methods",
            vec![frame::bind_service_reply(1, 1, &[(1, "Sync")])],
        ),
        (
            "refused the producer",
            vec![bound.clone(), frame::method_rejected(2)],
        ),
        (
            "memory before it accepted the producer",
            vec![bound.clone(), command(b"\x1a\x02\x08\x04")],
        ),
        (
            "no shared memory",
            vec![
                bound.clone(),
                [welcome.clone(), command(b"\x1a\x02\x08\x04")].concat(),
            ],
        ),
        (
            "ended the stream",
            vec![bound, [welcome, frame::method_rejected(3)].concat()],
        ),
    ];
    for (expected, answers) in cases {
        let address = unique_address("broken");
        let service = broken_service(&address, answers);
        let mut producer = producer_at(&address);
        let event = next_event(&mut producer, disconnected);
        let Event::Disconnected(reason) = event else {
            panic!()
        };
        assert!(
            reason.to_string().contains(expected),
            "{reason} is not {expected}"
        );
        drop(producer);
        service.join().unwrap();
    }
}

/// Partly valid commands: a known kind with an arbitrary body.
fn commands() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let body = prop::collection::vec(any::<u8>(), 0..40);
    let ids = prop::collection::vec(0u64..4, 0..4);
    let sensible = (1u32..8, ids).prop_map(|(kind, ids)| {
        encode(|m| m.nested(kind, |m| ids.iter().for_each(|&id| m.varint(1, id))))
    });
    let odd = (1u32..9, body.clone()).prop_map(|(kind, body)| encode(|m| m.bytes(kind, &body)));
    prop::collection::vec(prop_oneof![body, odd, sensible], 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_producer_survives_any_commands(
        commands in commands(),
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let address = unique_address("odd");
        let listener = listen(&address);
        let service = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(&frame::bind_service_reply(1, 1, &METHODS)).unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(&frame::method_reply(2, false, 0, |_| {})).unwrap();
            for command in commands {
                let write = |out: &mut Vec<u8>| out.extend_from_slice(&command);
                // The other side may have closed the connection.
                let _ = stream.write_all(&frame::method_reply(3, true, command.len(), write));
            }
            let _ = stream.write_all(&tail);
        });
        let mut producer = producer_at(&address);
        let handle = producer.handle();
        next_event(&mut producer, |event| {
            match event {
                Event::Flush { request_id, .. } => handle.flush_done(*request_id),
                Event::Stop { instance } => handle.notify_stopped(*instance),
                Event::Start { instance, config } => {
                    handle.notify_started(*instance);
                    let target = config.target_buffer.unwrap_or(0);
                    ferretto_testing::client::write_text(
                        &mut handle.create_writer(target, ExhaustedPolicy::Drop),
                        b"text",
                    );
                }
                _ => {}
            }
            disconnected(event)
        });
        service.join().unwrap();
    }
}

#[test]
fn a_consumer_waits_no_longer_than_its_time_limit() {
    ferretto_testing::own_process!();
    let address = unique_address("silent");
    let _listener = listen(&address);
    let result = Consumer::connect(&address, Duration::from_millis(1));
    assert!(
        matches!(result, Err(CallError::TimedOut { .. })),
        "{result:?}"
    );
}

#[test]
fn a_consumer_recognizes_a_producer_socket() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let result = Consumer::connect(&service.producers, LIMIT);
    assert!(
        matches!(result, Err(CallError::NoConsumerPort)),
        "{result:?}"
    );
}

#[test]
fn a_consumer_notices_the_end_of_the_service() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(64), None).unwrap();
    consumer.query_capabilities(LIMIT).unwrap();
    service.stop();
    let end = consumer.wait_for_end(LIMIT).unwrap().unwrap();
    assert!(end.error().unwrap().contains("lost"));
    let read = consumer.read_buffers(LIMIT, |_| Ok::<_, ()>(()));
    assert!(
        matches!(read, Err(ReadError::Call(CallError::Disconnected))),
        "{read:?}"
    );
    assert!(matches!(
        consumer.flush(LIMIT),
        Err(CallError::Disconnected)
    ));
    assert!(matches!(
        consumer.poll_event(),
        Some(ConsumerEvent::Disconnected(_))
    ));
    assert!(consumer.poll_event().is_none());
}

#[test]
fn connecting_fails_without_a_service() {
    ferretto_testing::own_process!();
    let result = Consumer::connect(&unique_address("absent"), LIMIT);
    assert!(matches!(result, Err(CallError::Connect(_))), "{result:?}");
}
