//! A data source like that of upstream's end-to-end tests: `for_testing` in its config describes
//! the packets to write.

use std::time::Instant;

use ferretto_client::{
    Consumer, Event, ExhaustedPolicy, Producer, ProducerOptions, Scraping, TraceWriter,
};
use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{DataSourceConfig, TestConfig, TraceConfig};
use ferretto_testing::client::{
    FOR_TESTING, LIMIT, Service, config, descriptor, next_event, texts, write_text,
};
use ferretto_wire::Fields;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const NAME: &str = "android.perfetto.FakeProducer";
/// Fields of `TestEvent`.
const TEXT: u32 = 1;
const VALUE: u32 = 2;

/// The minimal standard generator.
struct Random(u32);

impl Random {
    fn new(seed: u32) -> Self {
        Self(seed.max(1))
    }

    fn next(&mut self) -> u32 {
        self.0 = (u64::from(self.0) * 16_807 % 0x7fff_ffff) as u32;
        self.0
    }
}

/// Writes one batch of packets.
fn write(writer: &mut TraceWriter, config: &TestConfig) {
    let mut random = Random::new(config.seed.unwrap_or(0));
    let size = config.message_size.unwrap_or(0).max(2) as usize;
    let mut text = vec![b'.'; size];
    text[size - 1] = 0;
    for _ in 0..config.message_count.unwrap_or(0) {
        let value = random.next();
        writer.new_packet().nested(FOR_TESTING, |event| {
            event.bytes(TEXT, &text);
            event.varint(VALUE, value.into());
        });
    }
}

/// Records one batch with `config`. Returns texts and values.
fn record(config: TestConfig) -> Vec<(Vec<u8>, u64)> {
    let service = Service::start();
    let mut producer = Producer::new(ProducerOptions {
        name: NAME.to_owned(),
        address: Some(service.producers.clone()),
        page_size_hint: 4096,
        ..Default::default()
    })
    .unwrap();
    producer.register(descriptor(NAME));
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let source = DataSourceConfig {
        name: Some(NAME.into()),
        for_testing: config.into(),
        ..Default::default()
    };
    let config = TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(1024),
            ..Default::default()
        }],
        data_sources: vec![DataSource {
            config: source.into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    consumer.enable_tracing(config, None).unwrap();
    let started = next_event(&mut producer, |event| matches!(event, Event::Start { .. }));
    let Event::Start { instance, config } = started else {
        panic!()
    };
    let handle = producer.handle();
    let target = config.target_buffer.unwrap();
    let mut writer = handle.create_writer(target, ExhaustedPolicy::StallThenAbort);
    write(&mut writer, &config.for_testing);
    writer.flush(None);
    handle.notify_started(instance);
    consumer.disable_tracing(LIMIT).unwrap();
    next_event(&mut producer, |event| matches!(event, Event::Stop { .. }));
    handle.notify_stopped(instance);
    producer.process(Instant::now());
    consumer.wait_for_end(LIMIT).unwrap().expect("the end");
    let mut events = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            if let Some(event) = Fields::find(FOR_TESTING, packet).and_then(|f| f.as_bytes()) {
                let text = Fields::find(TEXT, event).and_then(|f| f.as_bytes());
                let value = Fields::find(VALUE, event).and_then(|f| f.as_u64());
                events.push((text.unwrap().to_vec(), value.unwrap()));
            }
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    events
}

#[test]
fn config_027_a_test_producer_writes_the_configured_packets() {
    for seed in [0, 1] {
        let events = record(TestConfig {
            seed: Some(seed),
            message_count: Some(3),
            message_size: Some(5),
            ..Default::default()
        });
        let values: Vec<u64> = events.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [16_807, 282_475_249, 1_622_650_073]);
        assert!(events.iter().all(|(text, _)| text == b"....\0"));
    }
}

#[test]
fn a_new_writer_is_registered_without_waking_the_owner() {
    let service = Service::start();
    let mut producer = Producer::new(ProducerOptions {
        address: Some(service.producers.clone()),
        scraping: Scraping::Enabled,
        ..Default::default()
    })
    .unwrap();
    producer.register(descriptor("test.source"));
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(1024), None).unwrap();
    let started = next_event(&mut producer, |event| matches!(event, Event::Start { .. }));
    let Event::Start { instance, config } = started else {
        panic!()
    };
    let handle = producer.handle();
    handle.notify_started(instance);
    // The service handles requests in order, so its earlier messages have arrived before this
    // reply.
    let (answered, is_answered) = std::sync::mpsc::channel();
    assert!(handle.sync(move || answered.send(()).unwrap()));
    while is_answered.try_recv().is_err() {
        producer.wait(Some(LIMIT));
        producer.process(Instant::now());
    }
    let is_readable = |producer: &Producer| {
        let mut fds = [PollFd::new(producer, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    };
    assert!(!is_readable(&producer));

    let target = config.target_buffer.unwrap();
    let mut writer = handle.create_writer(target, ExhaustedPolicy::Drop);
    assert!(!is_readable(&producer));

    // The service reads the chunk without a flush.
    write_text(&mut writer, b"unfinished");
    consumer.disable_tracing(LIMIT).unwrap();
    next_event(&mut producer, |event| matches!(event, Event::Stop { .. }));
    handle.notify_stopped(instance);
    producer.process(Instant::now());
    consumer.wait_for_end(LIMIT).unwrap().expect("the end");
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    assert_eq!(texts(&packets), [b"unfinished"]);
}
