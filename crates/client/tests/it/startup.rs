//! Recordings that start before there is a service.

use std::time::{Duration, Instant};

use ferretto_client::{
    Address, Consumer, Event, ExhaustedPolicy, Producer, ProducerOptions, TraceWriter,
};
use ferretto_testing::client::{
    LIMIT, Service, TEXT, config, descriptor, next_event, texts, unique_address, write_text,
};

const DROP: ExhaustedPolicy = ExhaustedPolicy::Drop;

fn producer(address: &Address, page_size: u32, memory_size: u32) -> Producer {
    let mut producer = Producer::new(ProducerOptions {
        name: "early".to_owned(),
        address: Some(address.clone()),
        provide_memory: true,
        page_size_hint: page_size,
        memory_size_hint: memory_size,
        ..Default::default()
    })
    .unwrap();
    producer.register(descriptor("test.source"));
    producer
}

/// Records texts written before, during and after the connection, and returns them.
fn record(producer: &mut Producer, service: &Service, early: &mut TraceWriter) -> Vec<Vec<u8>> {
    let handle = producer.handle();
    next_event(producer, |event| matches!(event, Event::Connected));
    write_text(early, b"connected");
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(1024), None).unwrap();
    let Event::Start { instance, config } =
        next_event(producer, |event| matches!(event, Event::Start { .. }))
    else {
        panic!()
    };
    let target = config.target_buffer.unwrap_or(0);
    handle.bind_startup(1, target);
    handle.abort_startup(2);
    handle.notify_started(instance);
    write_text(early, b"bound");
    early.flush(None);
    let mut late = handle.create_writer(target, DROP);
    assert_ne!((late.id(), early.id()), (0, 0));
    assert_ne!(late.id(), early.id(), "each writer has its own number");
    write_text(&mut late, b"late");
    late.flush(None);
    let mut bound = handle.create_startup_writer(1, DROP);
    assert!(![0, late.id(), early.id()].contains(&bound.id()));
    write_text(&mut bound, b"already bound");
    bound.flush(None);
    // The callback runs when all data flushed before has been processed.
    let (sender, receiver) = std::sync::mpsc::channel();
    assert!(handle.sync(move || sender.send(()).unwrap_or_default()));
    let end = Instant::now() + LIMIT;
    while receiver.try_recv().is_err() {
        assert!(Instant::now() < end);
        producer.wait(Some(Duration::from_secs(1)));
        producer.process(Instant::now());
    }
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    texts(&packets)
}

fn expect(mut texts: Vec<Vec<u8>>, expected: &[&[u8]]) {
    let mut expected: Vec<Vec<u8>> = expected.iter().map(|text| text.to_vec()).collect();
    // The packets of one writer keep their order.
    let early: Vec<_> = texts.iter().filter(|t| t.starts_with(b"early")).collect();
    assert!(early.is_sorted());
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected);
}

fn before_there_is_a_service(page_size: u32, memory_size: u32, tcp: bool) {
    let (producers, consumers) = (unique_address("producer"), unique_address("consumer"));
    let service = tcp.then(Service::start_tcp);
    let address = service.as_ref().map_or(&producers, |s| &s.producers);
    let mut producer = producer(address, page_size, memory_size);
    let handle = producer.handle();
    let mut early = handle.create_startup_writer(1, DROP);
    write_text(&mut early, b"early 1");
    let long = [b"early 2 ".as_slice(), &[b'x'; 6000]].concat();
    early
        .new_packet()
        .nested(ferretto_testing::client::FOR_TESTING, |message| {
            message.bytes(TEXT, &long)
        });
    let mut discarded = handle.create_startup_writer(2, DROP);
    write_text(&mut discarded, b"discarded");
    discarded.flush(None);
    early.flush(None);
    write_text(&mut early, b"early 3");
    let service = service.unwrap_or_else(|| Service::start_at(producers, consumers));
    let got = record(&mut producer, &service, &mut early);
    let expected: [&[u8]; 7] = [
        b"early 1",
        &long,
        b"early 3",
        b"connected",
        b"bound",
        b"late",
        b"already bound",
    ];
    expect(got, &expected);
}

#[test]
fn a_service_adopts_the_memory_of_a_producer_and_its_chunks() {
    before_there_is_a_service(0, 0, false);
    before_there_is_a_service(16 * 1024, 512 * 1024, false);
}

#[test]
fn no_packets_are_lost_if_the_service_does_not_adopt_the_memory() {
    // The size is not a whole number of pages, so no service adopts it.
    before_there_is_a_service(8 * 1024, 44 * 1024, false);
}

#[test]
fn no_packets_are_lost_if_memory_cannot_be_shared() {
    before_there_is_a_service(0, 0, true);
}

#[test]
fn a_lost_connection_ends_startup_writers_and_new_ones_can_be_created() {
    let service = Service::start();
    let mut producer = producer(&service.producers, 0, 0);
    let handle = producer.handle();
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let mut old = handle.create_startup_writer(1, DROP);
    write_text(&mut old, b"lost");
    let (producers, consumers) = (service.producers.clone(), service.consumers.clone());
    service.stop();
    next_event(&mut producer, |event| {
        matches!(event, Event::Disconnected(_))
    });
    // The writer discards the packet.
    write_text(&mut old, &[0; 100_000]);
    let mut early = handle.create_startup_writer(1, DROP);
    write_text(&mut early, b"early");
    let service = Service::start_at(producers, consumers);
    let got = record(&mut producer, &service, &mut early);
    let expected: [&[u8]; 5] = [b"early", b"connected", b"bound", b"late", b"already bound"];
    expect(got, &expected);
}

#[test]
fn startup_writers_discard_everything_without_provided_memory() {
    let mut producer = ferretto_testing::client::producer_at(&unique_address("producer"));
    let mut writer = producer.handle().create_startup_writer(1, DROP);
    write_text(&mut writer, b"nowhere");
    assert_eq!(writer.id(), 0);
    producer.handle().bind_startup(1, 1);
    producer.process(Instant::now());
}
