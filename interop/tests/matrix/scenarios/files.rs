//! Long recordings: the service writes to a file while recording.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::wire::Message;
use ferretto_interop::{Cast, World};
use ferretto_proto::TraceConfig;
use ferretto_proto::fields::trace_packet;

use crate::PROGRAMS;

fn long() -> TraceConfig {
    TraceConfig {
        write_into_file: Some(true),
        // The shortest supported period.
        file_write_period_ms: Some(100),
        ..config(4096)
    }
}

fn assert_counts(packets: &[Message], numbers: u64) {
    trace::assert_nothing_lost(packets);
    assert!(trace::numbers(packets).into_iter().eq(0..numbers));
}

pub(crate) fn a_long_recording_fills_the_consumers_file(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let file = world.file("long.pftrace");
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = world.config_file(&long());
    consumer.run(&format!("start {config} {}", file.display()));
    producer.run("await-start 1");
    producer.run("numbers 0 500");
    let so_far = world.await_in_file(&mut consumer, &file, |packets| {
        trace::numbers(packets).len() == 500
    });
    assert!(so_far[0].has(trace_packet::CLOCK_SNAPSHOT));
    producer.run("numbers 500 500");
    let left = trace::decode(&world.stop_and_read(&mut consumer));
    assert!(trace::numbers(&left).is_empty());
    assert_counts(&trace::decode(&std::fs::read(file).unwrap()), 1000);
}

pub(crate) fn a_long_recording_makes_its_own_file(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let file = world.file("own.pftrace");
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    let config = TraceConfig {
        output_path: Some(file.display().to_string().into()),
        ..long()
    };
    world.start_session(&mut consumer, &config);
    producer.run("await-start 1");
    producer.run("numbers 0 1000");
    consumer.run("stop");
    assert_counts(&trace::decode(&std::fs::read(file).unwrap()), 1000);
}

pub(crate) fn a_full_file_ends_the_recording(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let file = world.file("full.pftrace");
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = world.config_file(&TraceConfig {
        max_file_size_bytes: Some(20_000),
        ..long()
    });
    consumer.run(&format!("start {config} {}", file.display()));
    producer.run("await-start 1");
    producer.run("numbers 0 1000");
    assert_eq!(consumer.run("await-end"), "");
    let written = std::fs::read(file).unwrap();
    assert!(
        (15_000..20_000).contains(&written.len()),
        "{}",
        written.len()
    );
    let numbers = trace::numbers(&trace::decode(&written));
    assert!(numbers.len() > 50);
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
}

pub(crate) fn a_killed_service_leaves_the_file(cast: Cast) {
    let mut world = World::new(cast, PROGRAMS);
    let file = world.file("left.pftrace");
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = world.config_file(&long());
    consumer.run(&format!("start {config} {}", file.display()));
    producer.run("await-start 1");
    producer.run("numbers 0 500");
    let _ = world.await_in_file(&mut consumer, &file, |packets| {
        trace::numbers(packets).len() == 500
    });
    world.stop_service();
    assert_ne!(
        consumer.run("await-end"),
        "",
        "the consumer receives an error"
    );
    drop(consumer);
    let left = trace::decode(&std::fs::read(&file).unwrap());
    assert!(trace::numbers(&left).into_iter().eq(0..500));

    world.start_service();
    let mut consumer = world.full_consumer();
    consumer.run(&format!("start {config} {}", file.display()));
    producer.run("await-start 2");
    producer.run("numbers 0 7");
    consumer.run("stop");
    assert_counts(&trace::decode(&std::fs::read(file).unwrap()), 7);
}
