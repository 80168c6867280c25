//! A producer that is killed in the middle of a packet.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use ferretto_client::{
    Address, Consumer, Event, ExhaustedPolicy, Producer, ProducerOptions, Scraping,
};
use ferretto_testing::client::{
    FOR_TESTING, LIMIT, Service, TEXT, config, next_event, texts, write_text,
};

/// The environment variable with the address of the service for the child.
const ADDRESS: &str = "FERRETTO_TEST_KILLED_PRODUCER";

/// Runs in the child: records some packets, starts a long one, reports that, and waits to be
/// killed.
fn child(address: &str) {
    let mut producer = Producer::new(ProducerOptions {
        name: "victim".to_owned(),
        address: Some(address.parse().unwrap()),
        scraping: Scraping::Enabled,
        ..Default::default()
    })
    .unwrap();
    producer.register(ferretto_testing::client::descriptor("test.source"));
    let event = next_event(&mut producer, |event| matches!(event, Event::Start { .. }));
    let Event::Start { config, .. } = event else {
        panic!()
    };
    let target = config.target_buffer.unwrap();
    let mut writer = producer
        .handle()
        .create_writer(target, ExhaustedPolicy::Drop);
    for index in 0..10 {
        write_text(&mut writer, format!("packet {index}").as_bytes());
    }
    writer.new_packet().nested(FOR_TESTING, |m| {
        m.bytes(TEXT, &[b'x'; 20_000]);
        producer.process(std::time::Instant::now());
        println!("killme");
        loop {
            std::thread::park();
        }
    });
}

#[test]
fn only_unfinished_packets_are_lost() {
    ferretto_testing::own_process!();
    if let Ok(address) = std::env::var(ADDRESS) {
        child(&address);
        return;
    }
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(1024), None).unwrap();
    let Address::Abstract(name) = &service.producers else {
        panic!()
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "killed::only_unfinished_packets_are_lost",
            "--nocapture",
        ])
        .env(ADDRESS, format!("@{}", String::from_utf8_lossy(name)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("killme")));
    child.kill().unwrap();
    child.wait().unwrap();
    // The service notices the end of the connection.
    while !consumer
        .query_service_state(LIMIT)
        .unwrap()
        .producers
        .is_empty()
    {
        std::thread::yield_now();
    }
    consumer.disable_tracing(LIMIT).unwrap();
    consumer.wait_for_end(LIMIT).unwrap().unwrap();
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    let expected: Vec<_> = (0..10)
        .map(|index| format!("packet {index}").into_bytes())
        .collect();
    assert_eq!(texts(&packets), expected);
    let stats = consumer.trace_stats(LIMIT).unwrap();
    assert_eq!(
        stats.buffer_stats[0].readaheads_failed,
        Some(1),
        "the loss is reported"
    );
}
