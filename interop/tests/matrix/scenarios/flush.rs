//! Flushes and reads during a session.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::{Cast, World};

use super::plain::EVENTS_A_ROUND;
use crate::PROGRAMS;

pub(crate) fn a_read_returns_flushed_data(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    producer.run("slices 1");
    assert_eq!(consumer.run("flush"), "true");
    let packets = trace::decode(&world.read(&mut consumer));
    assert_eq!(trace::track_events(&packets).len(), EVENTS_A_ROUND + 1);
    producer.run("slices 2");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    assert_eq!(trace::track_events(&packets).len(), 2 * EVENTS_A_ROUND + 1);
}

pub(crate) fn a_flush_waits_for_data_sources(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    producer.run("hold-flushes");
    consumer.send("flush");
    producer.run("await-flush 1");
    producer.run("text late");
    consumer.assert_busy();
    producer.run("release");
    assert_eq!(consumer.answer(), "true");
    let packets = trace::decode(&world.read(&mut consumer));
    assert_eq!(trace::texts(&packets), ["late"]);
}
