//! One session with data in memory, read by the consumer.

use ferretto_interop::config::config;
use ferretto_interop::trace::{self, Event, EventKind};
use ferretto_interop::{Cast, Sdk, World};

use crate::PROGRAMS;

/// The number of events in one round of `slices`: begin, instant, counter and end.
pub(super) const EVENTS_A_ROUND: usize = 4;

fn of(events: &[Event], kind: EventKind) -> Vec<&Event> {
    events.iter().filter(|event| event.kind == kind).collect()
}

pub(crate) fn track_events_arrive_complete_and_in_order(cast: Cast) {
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
    assert_eq!(of(&events, EventKind::SliceEnd).len(), 500);
    assert_eq!(of(&events, EventKind::Instant).len(), 501);
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("last"));
    let counters = of(&events, EventKind::Counter);
    let values: Vec<_> = counters.iter().map(|event| event.counter).collect();
    assert_eq!(values, (0..500).map(Some).collect::<Vec<_>>());
    let unknown = trace::unknown_fields(&packets);
    assert!(unknown.is_empty(), "not in the schema: {unknown:?}");
    let begins = of(&events, EventKind::SliceBegin);
    assert_eq!(begins.len(), 500);
    for event in begins {
        assert_eq!(event.name, "round");
        assert_eq!(event.categories, ["interop"]);
        assert_eq!(event.pid, producer.pid());
    }
}

pub(crate) fn a_packet_of_74_kb_arrives_whole(cast: Cast) {
    large_packet(cast, 74_000);
}

pub(crate) fn a_packet_of_20_mb_arrives_whole(cast: Cast) {
    large_packet(cast, 20_000_000);
}

fn large_packet(cast: Cast, length: usize) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(65536));
    producer.run("await-start 1");
    producer.run(&format!("packet {length}"));
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    producer.run("await-stop 1");
    trace::assert_nothing_lost(&packets);
    let texts = trace::texts(&packets);
    assert_eq!(texts.len(), 1);
    assert!(texts[0].bytes().eq((b'a'..=b'z').cycle().take(length)));
}

pub(crate) fn two_sessions_receive_their_own_data(cast: Cast) {
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
        assert_eq!(of(&events, EventKind::SliceBegin).len(), rounds);
    }
}

pub(crate) fn a_late_producer_joins(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    let mut producer = world.producer();
    producer.run("await-start 1");
    producer.run("numbers 0 3");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert_eq!(trace::numbers(&packets), [0, 1, 2]);
}

pub(crate) fn all_kinds_of_producer_share_a_session(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producers =
        [Sdk::Ours, Sdk::Official, Sdk::OfficialOnOurs].map(|sdk| world.producer_of(sdk));
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    for producer in &mut producers {
        producer.run("await-start 1");
        producer.run("slices 50");
    }
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    let events = trace::track_events(&packets);
    for producer in &producers {
        let of_it = |event: &&Event| event.pid == producer.pid();
        let events: Vec<&Event> = events.iter().filter(of_it).collect();
        assert_eq!(events.len(), 50 * EVENTS_A_ROUND + 1);
        let sequence = events[0].sequence;
        assert!(events.iter().all(|event| event.sequence == sequence));
    }
}
