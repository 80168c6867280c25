//! Calls that do not wait for their answers.

mod common;

use common::{LIMIT, Service};
use ferretto_client::consumer_port::{Reply, Request};
use ferretto_client::{Consumer, ConsumerEvent, Submitted};
use ferretto_proto::{FlushRequest, QueryCapabilitiesRequest};

fn next(consumer: &mut Consumer) -> ConsumerEvent {
    loop {
        if let Some(event) = consumer.poll_event() {
            return event;
        }
        consumer.wait(LIMIT);
        consumer.process();
    }
}

fn next_answer(consumer: &mut Consumer) -> Submitted {
    match next(consumer) {
        ConsumerEvent::Answered(answer) => *answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_come_as_events_with_their_number() {
    let service = Service::start();
    let mut consumer = Consumer::open(&service.consumers).unwrap();
    assert!(matches!(next(&mut consumer), ConsumerEvent::Connected));

    let good = Request::QueryCapabilities(QueryCapabilitiesRequest::default());
    let good = consumer.submit(good, None).unwrap();
    let bad = Request::Flush(FlushRequest::default());
    let bad = consumer.submit(bad, None).unwrap();
    // What waits for its own answer does not take those of others.
    consumer.query_service_state(LIMIT).unwrap();

    let answer = next_answer(&mut consumer);
    assert_eq!(answer.id, good);
    assert!(!answer.has_more);
    assert!(matches!(answer.result, Ok(Reply::QueryCapabilities(_))));
    let answer = next_answer(&mut consumer);
    assert_eq!(answer.id, bad);
    assert!(answer.result.is_err(), "there is no session");
}

#[test]
fn the_other_port_is_told_apart() {
    let service = Service::start();
    let mut consumer = Consumer::open(&service.producers).unwrap();
    assert!(matches!(next(&mut consumer), ConsumerEvent::NoConsumerPort));
}

#[test]
fn another_thread_ends_a_wait() {
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let waker = consumer.waker().unwrap();
    let thread = std::thread::spawn(move || waker.wake());
    consumer.wait(std::time::Duration::from_secs(3600));
    thread.join().unwrap();
}

#[test]
fn a_lost_connection_answers_what_is_open() {
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    drop(service);
    let request = Request::QueryCapabilities(QueryCapabilitiesRequest::default());
    if let Ok(id) = consumer.submit(request, None) {
        let answer = next_answer(&mut consumer);
        assert_eq!(answer.id, id);
        assert!(answer.result.is_err());
    }
    assert!(matches!(
        next(&mut consumer),
        ConsumerEvent::Disconnected(_)
    ));
    assert!(consumer.is_closed());
}
