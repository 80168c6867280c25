//! The lifecycle of sessions.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::{Cast, World};
use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::buffer_config::FillPolicy;

use crate::PROGRAMS;

pub(crate) fn a_detached_session_goes_on(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut first = world.full_consumer();
    first.run(&format!("start {}", world.config_file(&config(4096))));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    assert_eq!(first.run("detach key"), "true");
    drop(first);
    producer.run("numbers 10 10");
    let mut second = world.full_consumer();
    assert_eq!(second.run("attach wrong"), "false");
    assert_eq!(second.run("attach key"), "true");
    producer.run("numbers 20 10");
    let mut third = world.full_consumer();
    assert_eq!(third.run("attach key"), "false");
    let packets = trace::decode(&world.stop_and_read(&mut second));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..30));
}

pub(crate) fn a_deferred_session_starts_on_request(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = TraceConfig {
        deferred_start: Some(true),
        ..config(4096)
    };
    consumer.run(&format!("enable {}", world.config_file(&config)));
    let sessions = consumer.run("sessions");
    assert!(sessions.contains(":CONFIGURED:"), "{sessions}");
    consumer.run("start-deferred");
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..10));
}

pub(crate) fn a_stop_waits_for_slow_data_sources(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = TraceConfig {
        data_source_stop_timeout_ms: Some(600_000),
        ..config(4096)
    };
    consumer.run(&format!("start {}", world.config_file(&config)));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    producer.run("hold-stops");
    consumer.send("stop");
    producer.run("await-stop 1");
    let mut other = world.full_consumer();
    let sessions = other.run("sessions");
    assert!(sessions.contains(":STOP_WAIT:"), "{sessions}");
    producer.run("release");
    assert_eq!(consumer.answer(), "");
    let packets = trace::decode(&world.read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..10));
}

pub(crate) fn a_changed_config_admits_producers(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    // Upstream only admits a producer with the first of its data sources.
    let mut open = config(4096);
    open.data_sources.remove(0);
    let mut filtered = open.clone();
    filtered.data_sources[0].producer_name_filter = vec![b"nobody".to_vec()];
    consumer.run(&format!("start {}", world.config_file(&filtered)));
    consumer.run(&format!("change {}", world.config_file(&open)));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    assert!(trace::numbers(&packets).into_iter().eq(0..10));
}

pub(crate) fn five_sessions_of_different_kinds_run_at_once(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let file = world.file("long.pftrace");
    let mut ring = config(64);
    ring.buffers[0].fill_policy = Some(FillPolicy::RING_BUFFER);
    let mut full = config(64);
    full.buffers[0].fill_policy = Some(FillPolicy::DISCARD);
    let long = TraceConfig {
        write_into_file: Some(true),
        output_path: Some(file.display().to_string().into()),
        ..config(4096)
    };
    let configs = [config(4096), ring, full, long, config(1024)];

    let mut producer = world.producer();
    let mut consumers = Vec::new();
    for (started, config) in (1..).zip(&configs) {
        let mut consumer = world.consumer();
        world.start_session(&mut consumer, config);
        producer.run(&format!("await-start {started}"));
        consumers.push(consumer);
    }
    producer.run("numbers 0 3000");
    let mut numbers: Vec<Vec<u64>> = Vec::new();
    for consumer in &mut consumers {
        let packets = trace::decode(&world.stop_and_read(consumer));
        numbers.push(trace::numbers(&packets));
    }
    numbers[3] = trace::numbers(&trace::decode(&std::fs::read(file).unwrap()));
    for whole in [0, 3, 4] {
        assert!(
            numbers[whole].iter().copied().eq(0..3000),
            "session {whole}"
        );
    }
    let (ring, full) = (numbers[1].len() as u64, numbers[2].len() as u64);
    assert!((200..3000).contains(&ring) && (200..3000).contains(&full));
    assert!(numbers[1].iter().copied().eq(3000 - ring..3000));
    assert!(numbers[2].iter().copied().eq(0..full));
}
