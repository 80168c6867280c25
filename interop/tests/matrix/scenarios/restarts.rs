//! Killed programs, and their successors.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::{Cast, Side, World};

use super::plain::EVENTS_A_ROUND;
use crate::PROGRAMS;

pub(crate) fn data_of_a_killed_producer_is_kept(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    // Each is answered when the service has received it.
    producer.run("packet 10");
    producer.run("packet 10000");
    producer.kill();
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    let lengths: Vec<usize> = trace::texts(&packets).iter().map(|t| t.len()).collect();
    assert_eq!(lengths, [10, 10000]);
}

pub(crate) fn a_producer_finds_the_next_service(cast: Cast) {
    let mut world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    for start in 1..=2 {
        let mut consumer = world.consumer();
        world.start_session(&mut consumer, &config(4096));
        producer.run(&format!("await-start {start}"));
        producer.run("slices 10");
        let packets = trace::decode(&world.stop_and_read(&mut consumer));
        trace::assert_nothing_lost(&packets);
        let events = trace::track_events(&packets);
        assert_eq!(events.len(), 10 * EVENTS_A_ROUND + 1);
        drop(consumer);
        world.stop_service();
        world.start_service();
    }
}

pub(crate) fn the_session_of_a_killed_consumer_ends(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut observer = world.consumer_of(Side::Ours);
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    consumer.kill();
    producer.run("await-stop 1");
    assert_eq!(observer.run("sessions"), "");
    let mut next = world.consumer();
    world.start_session(&mut next, &config(4096));
    producer.run("await-start 2");
    producer.run("numbers 10 10");
    let packets = trace::decode(&world.stop_and_read(&mut next));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(10..20));
}

pub(crate) fn a_pending_stop_survives_the_end_of_the_service(cast: Cast) {
    let mut world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    producer.run("hold-stops");
    drop(consumer);
    world.stop_service();
    producer.run("await-stop 1");
    world.start_service();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 2");
    // The rest of the previous service's session ends during the next one's session.
    producer.run("slices 1");
    producer.run("release");
    producer.run("fill 0 10");
    producer.run("slices 2");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    let events = trace::track_events(&packets);
    assert_eq!(events.len(), 3 * EVENTS_A_ROUND + 2);
    assert!(trace::numbers(&packets).into_iter().eq(0..10));
}
