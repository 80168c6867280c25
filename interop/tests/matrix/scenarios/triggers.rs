//! Sessions that wait for a trigger.

use ferretto_interop::config::triggered;
use ferretto_interop::trace;
use ferretto_interop::wire::Message;
use ferretto_interop::{Cast, Side, World};
use ferretto_proto::fields::{trace_packet, trigger};
use ferretto_proto::trace_config::trigger_config::TriggerMode;

use crate::PROGRAMS;

fn assert_triggered(packets: &[Message], field: u32) {
    let found = trace::with(packets, field);
    assert_eq!(found.len(), 1);
    let trigger = found[0].message(field);
    assert_eq!(trigger.text(trigger::TRIGGER_NAME), "go");
    assert!(!trigger.text(trigger::PRODUCER_NAME).is_empty());
    assert!(trigger.has(trigger::TRUSTED_PRODUCER_UID));
    assert!(found[0].number(trace_packet::TIMESTAMP) > 0);
}

pub(crate) fn a_trigger_starts_a_recording(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = triggered(TriggerMode::START_TRACING, 0);
    let config = world.config_file(&config);
    consumer.run(&format!("enable {config}"));
    assert!(trace::decode(&world.read(&mut consumer)).is_empty());
    producer.run("trigger another");
    producer.run("trigger go");
    consumer.run("await-started");
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..10));
    assert_triggered(&packets, trace_packet::TRIGGER);
}

pub(crate) fn a_trigger_stops_a_recording(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = triggered(TriggerMode::STOP_TRACING, 1);
    consumer.run(&format!("start {}", world.config_file(&config)));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    assert!(trace::decode(&world.read(&mut consumer)).is_empty());
    producer.run("trigger go");
    assert_eq!(consumer.run("await-end"), "");
    let packets = trace::decode(&world.read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..10));
    assert_triggered(&packets, trace_packet::TRIGGER);
}

pub(crate) fn the_sdk_waits_for_a_trigger(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut trigger = world.producer_of(Side::Official);
    let mut consumer = world.consumer();
    let config = triggered(TriggerMode::STOP_TRACING, 600_000);
    world.start_session(&mut consumer, &config);
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    trigger.run("await-start 1");
    trigger.run("trigger go");
    // A round trip after the trigger ensures that it arrived before the end.
    trigger.run("numbers 10 1");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    // The two sequences have no order.
    let mut numbers = trace::numbers(&packets);
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..11));
    assert_triggered(&packets, trace_packet::TRIGGER);
}

pub(crate) fn triggers_request_snapshots(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = triggered(TriggerMode::CLONE_SNAPSHOT, 0);
    consumer.run(&format!("start {}", world.config_file(&config)));
    producer.run("await-start 1");
    for numbers in [10, 20] {
        producer.run(&format!("numbers {} 10", numbers - 10));
        producer.run("trigger go");
        let hit = consumer.run("await-clone-trigger");
        let session = hit.strip_suffix(" go").expect("the trigger's name");
        let mut snapshot = world.full_consumer();
        snapshot.run(&format!("clone {session}"));
        let packets = trace::decode(&world.read(&mut snapshot));
        trace::assert_nothing_lost(&packets);
        assert!(trace::numbers(&packets).into_iter().eq(0..numbers));
    }
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    assert!(packets.is_empty(), "such a session can only be cloned");
}
