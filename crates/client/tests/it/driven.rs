//! Recordings driven by hand, with calls that do not wait for their replies.

use std::time::{Duration, Instant};

use ferretto_client::Address;
use ferretto_client::Recording;
use ferretto_client::recording::{
    Answer, Call, CallError, CallId, Event, Needs, Waker, exchange, wait,
};
use ferretto_client::transport::{AtAddress, Connect, ConsumerPort, Link};
use ferretto_proto::FlushRequest;
use ferretto_testing::client::{LIMIT, Service};

struct Driven {
    link: Box<dyn Link<ConsumerPort>>,
    recording: Recording,
}

impl Driven {
    fn open(address: &Address) -> Self {
        let at = AtAddress::default().consumers_at(address.clone());
        Self {
            link: at.connect().unwrap(),
            recording: Recording::new(),
        }
    }

    fn call(&mut self, call: Call) -> CallId {
        self.recording.call(call, Needs::Nothing, None)
    }

    fn next(&mut self) -> Event {
        loop {
            exchange(&mut self.recording, &mut *self.link, Instant::now());
            if let Some(event) = self.recording.poll_event() {
                return event;
            }
            assert!(wait(&*self.link, None, LIMIT), "no event arrived");
        }
    }

    fn next_answer(&mut self) -> (CallId, Result<Answer, CallError>) {
        match self.next() {
            Event::Answered { call, result } => (call, result),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn replies_are_events_with_the_id_of_their_call() {
    let service = Service::start();
    let mut driven = Driven::open(&service.consumers);
    // Calls are possible before the service replies.
    let good = driven.call(Call::Capabilities);
    let bad = driven.call(Call::Flush(FlushRequest::default()));
    assert!(matches!(driven.next(), Event::Connected));

    let (call, result) = driven.next_answer();
    assert_eq!(call, good);
    assert!(matches!(result, Ok(Answer::Capabilities(_))));
    let (call, result) = driven.next_answer();
    assert_eq!(call, bad);
    assert!(result.is_err(), "there is no session");
}

#[test]
fn a_producer_port_is_reported_as_no_consumer_port() {
    let service = Service::start();
    let mut driven = Driven::open(&service.producers);
    let call = driven.call(Call::Connect);
    let (answered, result) = driven.next_answer();
    assert_eq!(answered, call);
    assert!(matches!(result, Err(CallError::NoConsumerPort)));
    assert!(matches!(driven.next(), Event::NoConsumerPort));
}

#[test]
fn another_thread_ends_a_wait() {
    let service = Service::start();
    let mut driven = Driven::open(&service.consumers);
    assert!(matches!(driven.next(), Event::Connected));
    let waker = Waker::new().unwrap();
    let from_elsewhere = waker.clone();
    let thread = std::thread::spawn(move || from_elsewhere.wake());
    wait(&*driven.link, Some(&waker), Duration::from_secs(3600));
    thread.join().unwrap();
}

#[test]
fn a_lost_connection_fails_open_calls() {
    let service = Service::start();
    let mut driven = Driven::open(&service.consumers);
    assert!(matches!(driven.next(), Event::Connected));
    drop(service);
    let open = driven.call(Call::Capabilities);
    let (call, result) = driven.next_answer();
    assert_eq!(call, open);
    assert!(matches!(result, Err(CallError::Disconnected)));
    assert!(matches!(driven.next(), Event::Disconnected(_)));
    let late = driven.call(Call::Stats);
    let (call, result) = driven.next_answer();
    assert_eq!(call, late);
    assert!(matches!(result, Err(CallError::Disconnected)));
}
