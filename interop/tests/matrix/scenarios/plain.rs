//! The scenarios, written once.

use ferretto_interop::config::config;
use ferretto_interop::trace::{self, Event};
use ferretto_interop::{Cast, World};
use perfetto_protos::track_event::track_event::Type;

use super::PROGRAMS;

/// Fields of upstream's own that came after the schema package's release.
const NEWER_THAN_THE_SCHEMA: [&str; 3] = [
    "perfetto.protos.SystemInfo.16",
    "perfetto.protos.TracePacket.124",
    "perfetto.protos.TraceStats.BufferStats.20",
];

/// What one round of `slices` writes: begin, instant, counter, end.
const EVENTS_A_ROUND: usize = 4;

fn of(events: &[Event], kind: Type) -> Vec<&Event> {
    events.iter().filter(|event| event.kind == kind).collect()
}

pub(crate) fn track_events(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    producer.run("slices 500");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);

    let events = trace::track_events(&packets);
    assert_eq!(events.len(), 500 * EVENTS_A_ROUND + 1);
    assert_eq!(of(&events, Type::TYPE_SLICE_END).len(), 500);
    assert_eq!(of(&events, Type::TYPE_INSTANT).len(), 501);
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("last"));
    let counters = of(&events, Type::TYPE_COUNTER);
    let values: Vec<_> = counters.iter().map(|event| event.counter).collect();
    assert_eq!(values, (0..500).map(Some).collect::<Vec<_>>());
    let unknown = trace::unknown_fields(&packets);
    let wrong: Vec<&String> = unknown
        .iter()
        .filter(|field| !NEWER_THAN_THE_SCHEMA.contains(&field.as_str()))
        .collect();
    assert!(wrong.is_empty(), "not in upstream's schema: {wrong:?}");
    let begins = of(&events, Type::TYPE_SLICE_BEGIN);
    assert_eq!(begins.len(), 500);
    for event in begins {
        assert_eq!(event.name, "round");
        assert_eq!(event.categories, ["interop"]);
        assert_eq!(event.pid, producer.pid());
    }
}

pub(crate) fn large_packet(cast: Cast, length: usize) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(65536));
    producer.run("await-start 1");
    producer.run(&format!("packet {length}"));
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    producer.run("await-stop 1");
    trace::assert_nothing_lost(&packets);
    let texts = trace::test_texts(&packets);
    assert_eq!(texts.len(), 1);
    assert!(texts[0].bytes().eq((b'a'..=b'z').cycle().take(length)));
}

pub(crate) fn flush_and_read(cast: Cast) {
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

pub(crate) fn killed_producer(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    // Each is answered once the service has it.
    producer.run("packet 10");
    producer.run("packet 10000");
    producer.kill();
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    let lengths: Vec<usize> = trace::test_texts(&packets)
        .iter()
        .map(|t| t.len())
        .collect();
    assert_eq!(lengths, [10, 10000]);
}

pub(crate) fn next_service(cast: Cast) {
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

pub(crate) fn two_sessions(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut one = world.consumer();
    let mut two = world.consumer();
    world.start_session(&mut one, &config(4096));
    producer.run("await-start 1");
    producer.run("slices 3");
    world.start_session(&mut two, &config(4096));
    producer.run("await-start 2");
    producer.run("slices 4");
    for (consumer, rounds) in [(&mut two, 4), (&mut one, 7)] {
        let packets = trace::decode(&world.stop_and_read(consumer));
        trace::assert_nothing_lost(&packets);
        let events = trace::track_events(&packets);
        assert_eq!(of(&events, Type::TYPE_SLICE_BEGIN).len(), rounds);
    }
}
