//! The official SDK as producer and as consumer, our service between them.

use ferretto_interop::config::{PACKETS, config};
use ferretto_interop::{Official, Service, Sockets, trace};
use perfetto_protos::track_event::track_event::Type;

const OFFICIAL: &str = env!("CARGO_BIN_EXE_official");

#[test]
fn track_events_arrive_complete_and_in_order() {
    let sockets = Sockets::new();
    let _service = Service::start(&sockets);
    let mut producer = Official::producer(OFFICIAL, &sockets);
    let mut consumer = Official::consumer(OFFICIAL, &sockets);
    consumer.start_session(sockets.folder(), &config(4096, &["track_event"]));
    producer.run("await-slices 1");
    producer.run("slices 500");
    let packets = trace::decode(&consumer.stop_and_read(sockets.folder()));
    trace::assert_nothing_lost(&packets);

    let events = trace::track_events(&packets);
    let of = |kind| events.iter().filter(move |event| event.kind == kind);
    assert_eq!(of(Type::TYPE_SLICE_BEGIN).count(), 500);
    assert_eq!(of(Type::TYPE_SLICE_END).count(), 500);
    assert_eq!(of(Type::TYPE_INSTANT).count(), 501);
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("last"));
    let counters: Vec<Option<i64>> = of(Type::TYPE_COUNTER).map(|event| event.counter).collect();
    assert_eq!(counters, (0..500).map(Some).collect::<Vec<_>>());
    for event in of(Type::TYPE_SLICE_BEGIN) {
        assert_eq!(event.name, "round");
        assert_eq!(event.categories, ["interop"]);
        assert_eq!(event.pid, producer.pid());
    }
}

#[test]
fn a_packet_larger_than_the_shared_memory_arrives_whole() {
    for length in [74_000, 20_000_000] {
        let sockets = Sockets::new();
        let _service = Service::start(&sockets);
        let mut producer = Official::producer(OFFICIAL, &sockets);
        let mut consumer = Official::consumer(OFFICIAL, &sockets);
        consumer.start_session(sockets.folder(), &config(65536, &[PACKETS]));
        producer.run("await-packets 1");
        producer.run(&format!("packet {length}"));
        let packets = trace::decode(&consumer.stop_and_read(sockets.folder()));
        trace::assert_nothing_lost(&packets);
        let texts = trace::test_texts(&packets);
        assert_eq!(texts.len(), 1);
        assert!(texts[0].bytes().eq((b'a'..=b'z').cycle().take(length)));
    }
}

#[test]
fn a_flush_brings_out_what_was_never_committed() {
    let sockets = Sockets::new();
    let _service = Service::start(&sockets);
    let mut producer = Official::producer(OFFICIAL, &sockets);
    let mut consumer = Official::consumer(OFFICIAL, &sockets);
    consumer.start_session(sockets.folder(), &config(4096, &["track_event", PACKETS]));
    producer.run("await-slices 1");
    producer.run("slices 1");
    assert_eq!(consumer.run("flush"), "true");
    let first = sockets.folder().join("first.pftrace");
    consumer.run(&format!("read {}", first.display()));
    let bytes = std::fs::read(first).expect("the trace was written");
    assert_eq!(trace::track_events(&trace::decode(&bytes)).len(), 5);
    // A read takes the packets out: what comes later is all that is left.
    producer.run("slices 2");
    let packets = trace::decode(&consumer.stop_and_read(sockets.folder()));
    assert_eq!(trace::track_events(&packets).len(), 9);
}

#[test]
fn a_killed_producer_leaves_what_it_had_written() {
    let sockets = Sockets::new();
    let _service = Service::start(&sockets);
    let mut producer = Official::producer(OFFICIAL, &sockets);
    let mut consumer = Official::consumer(OFFICIAL, &sockets);
    consumer.start_session(sockets.folder(), &config(4096, &["track_event"]));
    producer.run("await-slices 1");
    producer.run("slices 100");
    producer.kill();
    let packets = trace::decode(&consumer.stop_and_read(sockets.folder()));
    let begins = trace::track_events(&packets)
        .iter()
        .filter(|event| event.kind == Type::TYPE_SLICE_BEGIN)
        .count();
    assert_eq!(begins, 100);
}

#[test]
fn a_producer_finds_the_service_that_comes_after_the_one_that_went() {
    let sockets = Sockets::new();
    let mut service = Service::start(&sockets);
    let mut producer = Official::producer(OFFICIAL, &sockets);
    for start in 1..=2 {
        let mut consumer = Official::consumer(OFFICIAL, &sockets);
        consumer.start_session(sockets.folder(), &config(4096, &["track_event"]));
        producer.run(&format!("await-slices {start}"));
        producer.run("slices 10");
        let packets = trace::decode(&consumer.stop_and_read(sockets.folder()));
        trace::assert_nothing_lost(&packets);
        assert_eq!(trace::track_events(&packets).len(), 41);
        drop(service);
        service = Service::start(&sockets);
    }
}

#[test]
fn two_sessions_each_get_their_own() {
    let sockets = Sockets::new();
    let _service = Service::start(&sockets);
    let mut producer = Official::producer(OFFICIAL, &sockets);
    let mut one = Official::consumer(OFFICIAL, &sockets);
    let mut two = Official::consumer(OFFICIAL, &sockets);
    one.start_session(sockets.folder(), &config(4096, &["track_event"]));
    producer.run("await-slices 1");
    producer.run("slices 3");
    two.start_session(sockets.folder(), &config(4096, &["track_event"]));
    producer.run("await-slices 2");
    producer.run("slices 4");
    for (consumer, begins) in [(&mut two, 4), (&mut one, 7)] {
        let packets = trace::decode(&consumer.stop_and_read(sockets.folder()));
        trace::assert_nothing_lost(&packets);
        let events = trace::track_events(&packets);
        let found = events
            .iter()
            .filter(|event| event.kind == Type::TYPE_SLICE_BEGIN)
            .count();
        assert_eq!(found, begins);
    }
}
