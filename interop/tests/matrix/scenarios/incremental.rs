//! Sessions that clear incremental state periodically.

use std::time::{Duration, Instant};

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::wire::Message;
use ferretto_interop::{Cast, World};
use ferretto_interop_driver::PATIENCE;
use ferretto_proto::TraceConfig;
use ferretto_proto::fields::trace_packet;
use ferretto_proto::trace_config::IncrementalStateConfig;

use super::plain::EVENTS_A_ROUND;
use crate::PROGRAMS;

/// The number of restarts of the incremental state, including the first one.
const RESTARTS: usize = 3;

fn clearing() -> TraceConfig {
    TraceConfig {
        incremental_state_config: IncrementalStateConfig {
            clear_period_ms: Some(100),
            ..Default::default()
        }
        .into(),
        ..config(4096)
    }
}

/// Repeats an action until it returns true.
fn until_enough(mut act: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !act() {
        assert!(Instant::now() < deadline, "timeout");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn a_data_source_repeats_its_state(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &clearing());
    producer.run("await-start 1");
    let mut written = Vec::new();
    until_enough(|| {
        written.push(producer.run("known"));
        let count = |word| written.iter().filter(|text| *text == word).count();
        count("new") >= RESTARTS && count("known") >= 1
    });
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert_eq!(written[0], "new");
    assert_eq!(trace::texts(&packets), written);
}

pub(crate) fn track_events_repeat_their_state(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &clearing());
    producer.run("await-start 1");
    let (mut packets, mut rounds) = (Vec::new(), 0);
    let is_anew = |packet: &&Message| packet.number(trace_packet::SEQUENCE_FLAGS) & 1 != 0;
    until_enough(|| {
        producer.run("slices 10");
        rounds += 10;
        assert_eq!(consumer.run("flush"), "true");
        packets.extend(trace::decode(&world.read(&mut consumer)));
        let sequences = trace::track_events(&packets);
        let sequence = sequences.last().expect("there are events").sequence;
        let of_it = packets.iter().filter(|p| trace::sequence(p) == sequence);
        of_it.filter(is_anew).count() >= RESTARTS
    });
    consumer.run("stop");
    let events = trace::track_events(&packets);
    let lasts = events.iter().filter(|event| event.name == "last").count();
    assert_eq!(events.len(), rounds * EVENTS_A_ROUND + lasts);
    assert_eq!(lasts, rounds / 10);
    let ticks = events.iter().filter(|event| event.name == "tick").count();
    let begins = events.iter().filter(|event| event.name == "round").count();
    assert_eq!([ticks, begins], [rounds, rounds]);
}
