//! Tests that packets arrive in order and with the right identity.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use ferretto::in_process::InProcess;
use ferretto_client::{Event, ExhaustedPolicy, Producer, ProducerOptions, Scraping, TraceWriter};
use ferretto_proto::{DataSourceDescriptor, TraceConfig};

use super::world::*;

const DROP: ExhaustedPolicy = ExhaustedPolicy::Drop;
const STALL: ExhaustedPolicy = ExhaustedPolicy::StallThenAbort;

#[test]
fn packets_arrive_in_order_with_the_identity_of_this_process() {
    let service = InProcess::new();
    let _recorder = Recorder::start(&service, DROP, |writer| {
        (0..100).for_each(|number| write(writer, number, 10));
    });
    let mut consumer = consumer(&service);
    start(&mut consumer, config(1024));
    consumer.flush(LIMIT).unwrap();
    let packets = read(&mut consumer);
    assert_eq!(numbers(&packets), (0..100).collect::<Vec<_>>());
    let (uid, pid) = (rustix::process::geteuid(), std::process::id());
    for packet in written(&packets) {
        assert_eq!(number_in(packet, TRUSTED_UID), Some(uid.as_raw().into()));
        assert_eq!(number_in(packet, TRUSTED_PID), Some(pid.into()));
        assert_eq!(number_in(packet, MACHINE_ID), None);
    }
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [], "they were read");
}

#[test]
fn separate_services_are_independent() {
    let (service, other) = (InProcess::new(), InProcess::new());
    let _recorder = Recorder::start(&service, DROP, |writer| write(writer, 1, 10));
    let mut consumer = consumer(&other);
    start(&mut consumer, config(64));
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), []);
}

#[test]
fn an_unconfirmed_stop_does_not_overtake_a_new_writers_packets() {
    let service = InProcess::new();
    let options = ProducerOptions {
        scraping: Scraping::Enabled,
        ..options()
    };
    let mut producer = Producer::through(Arc::new(service.clone()), options).unwrap();
    producer.register(DataSourceDescriptor {
        will_notify_on_stop: Some(false),
        ..descriptor()
    });
    let mut consumer = consumer(&service);
    consumer.enable_tracing(config(64), None).unwrap();
    let target = wait_for_target(&mut producer);
    // From here on the producer processes no events.
    let mut writer = producer.handle().create_writer(target, DROP);
    write(&mut writer, 7, 10);
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [7]);
}

/// Waits for the start of a recording and returns its buffer.
fn wait_for_target(producer: &mut Producer) -> u32 {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        producer.process(Instant::now());
        while let Some(event) = producer.poll_event() {
            if let Event::Start { config, .. } = event {
                return config.target_buffer.unwrap();
            }
        }
        producer.wait(Some(LIMIT));
    }
    panic!("no recording began");
}

#[test]
fn a_ring_holds_the_newest() {
    let service = InProcess::new();
    let _recorder = Recorder::start(&service, STALL, |writer| {
        (0..20_000).for_each(|number| write(writer, number, 50));
    });
    let mut consumer = consumer(&service);
    start(&mut consumer, config(64));
    stop(&mut consumer);
    let stats = consumer.trace_stats(LIMIT).unwrap();
    let got = numbers(&read(&mut consumer));
    assert_eq!(got.last(), Some(&19_999));
    let first = got[0];
    assert!(first > 10_000, "{first}");
    assert_eq!(got, (first..20_000).collect::<Vec<_>>());
    let buffer = &stats.buffer_stats[0];
    assert!(buffer.chunks_overwritten.unwrap_or(0) > 0);
    assert_eq!(buffer.trace_writer_packet_loss.unwrap_or(0), 0);
    assert!(stats.final_flush_outcome.is_some());
}

#[test]
fn eight_stalling_threads_lose_nothing() {
    const THREADS: u32 = 8;
    const PACKETS: u32 = 20_000;
    let service = InProcess::new();
    let (sender, targets) = mpsc::channel();
    let recorder = Recorder::start(&service, DROP, move |writer| {
        sender.send(writer.target_buffer()).unwrap();
    });
    let mut consumer = consumer(&service);
    start(&mut consumer, config(64 * 1024));
    let target = targets.recv_timeout(LIMIT).unwrap().into();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let handle = &recorder.handle;
            scope.spawn(move || {
                let mut writer = handle.create_writer(target, STALL);
                for number in 0..PACKETS {
                    // Some packets are larger than a chunk and need patches.
                    let size = if number % 100 == 0 { 5000 } else { 20 };
                    write(&mut writer, thread * PACKETS + number, size);
                }
            });
        }
    });
    stop(&mut consumer);
    let mut got = numbers(&read(&mut consumer));
    for thread in 0..THREADS {
        let own: Vec<u32> = got
            .iter()
            .copied()
            .filter(|number| number / PACKETS == thread)
            .collect();
        assert!(own.is_sorted(), "each thread's packets are in order");
    }
    got.sort_unstable();
    assert_eq!(got, (0..THREADS * PACKETS).collect::<Vec<_>>());
}

#[test]
fn dropped_packets_are_counted() {
    let service = InProcess::new();
    let (sender, targets) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let recorder = Recorder::start(&service, DROP, move |writer| {
        sender.send(writer.target_buffer()).unwrap();
        // Nothing is sent meanwhile.
        let _ = released.recv_timeout(LIMIT);
    });
    let mut consumer = consumer(&service);
    consumer.enable_tracing(config(64 * 1024), None).unwrap();
    let target = targets.recv_timeout(LIMIT).unwrap().into();
    let mut writer = recorder.handle.create_writer(target, DROP);
    // More than fits.
    (0..100_000).for_each(|number| write(&mut writer, number, 50));
    drop(release);
    let (sender, sent) = mpsc::channel();
    assert!(recorder.handle.sync(move || sender.send(()).unwrap()));
    sent.recv_timeout(LIMIT).unwrap();
    // There is space again; a writer checks for it at the latest after so many dropped packets.
    (100_000..100_100).for_each(|number| write(&mut writer, number, 50));
    drop(writer);
    stop(&mut consumer);
    let packets = read(&mut consumer);
    let got = numbers(&packets);
    assert!(got.len() < 100_000 && got.is_sorted());
    assert_eq!((got.first(), got.last()), (Some(&0), Some(&100_099)));
    let gaps = got.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let flagged = written(&packets)
        .skip(1)
        .filter(|packet| number_in(packet, DROPPED).is_some_and(|why| why != 0))
        .count();
    assert_eq!((gaps, flagged), (1, 1));
    let stats = consumer.trace_stats(LIMIT).unwrap();
    let lost = stats.buffer_stats[0].trace_writer_packet_loss;
    assert!(lost.unwrap_or(0) > 0);
}

#[test]
fn the_chunks_of_a_disconnected_producer_are_scraped() {
    let service = InProcess::new();
    let recorder = Recorder::start(&service, DROP, |writer| {
        (0..3).for_each(|number| write(writer, number, 10));
    });
    let mut consumer = consumer(&service);
    start(&mut consumer, config(64));
    let handle = recorder.handle.clone();
    drop(recorder);
    assert!(!handle.is_connected());
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [0, 1, 2]);
}

#[test]
fn startup_writers_record_before_the_connection() {
    let service = InProcess::new();
    let early = ferretto_client::ProducerOptions {
        provide_memory: true,
        scraping: Scraping::Enabled,
        ..options()
    };
    let connector = std::sync::Arc::new(service.clone());
    let mut producer = ferretto_client::Producer::through(connector, early).unwrap();
    producer.register(descriptor());
    let handle = producer.handle();
    let mut writer = handle.create_startup_writer(1, DROP);
    write(&mut writer, 1, 6000);
    let mut consumer = consumer(&service);
    consumer.enable_tracing(config(1024), None).unwrap();
    let end = std::time::Instant::now() + LIMIT;
    let target = loop {
        assert!(std::time::Instant::now() < end);
        producer.process(std::time::Instant::now());
        match producer.poll_event() {
            Some(ferretto_client::Event::Start { config, .. }) => {
                break config.target_buffer.unwrap();
            }
            Some(_) => {}
            None => producer.wait(None),
        }
    };
    handle.bind_startup(1, target);
    write(&mut writer, 2, 10);
    writer.flush(None);
    drop(writer);
    drop(producer);
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [1, 2]);
}

#[test]
fn producers_of_another_machine_are_recorded_if_wanted() {
    let service = InProcess::new();
    let other = service.on_machine(7);
    let _recorder = Recorder::start(&other, DROP, |writer| write(writer, 1, 10));
    let record = |config: TraceConfig| {
        let mut consumer = consumer(&service);
        start(&mut consumer, config);
        stop(&mut consumer);
        read(&mut consumer)
    };
    assert_eq!(numbers(&record(config(64))), []);
    let packets = record(TraceConfig {
        trace_all_machines: Some(true),
        ..config(64)
    });
    assert_eq!(numbers(&packets), [1]);
    for packet in written(&packets) {
        assert_eq!(number_in(packet, MACHINE_ID), Some(7));
    }
}

#[test]
fn the_shared_service_is_a_singleton() {
    let _recorder = Recorder::start(&InProcess::shared(), STALL, |writer: &mut TraceWriter| {
        write(writer, 1, 10);
    });
    let mut consumer = consumer(&InProcess::shared());
    start(&mut consumer, config(64));
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [1]);
}
