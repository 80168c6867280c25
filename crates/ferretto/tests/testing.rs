//! Recordings read back for tests.

mod common;

use common::{LIMIT, Service};
use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto::testing::{CounterValue, Trace, Value};

fn work() {
    let _outer = ferretto::slice!("app", "outer", id = 7, who = "me", list = [1, 2]);
    ferretto::instant!("app", &format!("dynamic {}", 1));
    ferretto::counter!("app", "load", 3);
    ferretto::counter!("app", "load", 0.5);
    ferretto::begin!("other", "inner");
    ferretto::end!("other");
}

#[test]
fn what_was_traced_is_a_tree() {
    let service = Service::start();
    ferretto::Options::new()
        .address(service.producers.clone())
        .wait(LIMIT)
        .init()
        .unwrap();
    let session = Session::open(Backend::At(service.consumers.clone())).unwrap();
    session.set_up(RecordingConfig::new().track_events(TrackEvents::all()));
    session.start(LIMIT).wait().unwrap();
    let thread = std::thread::Builder::new().name("worker".to_owned());
    thread.spawn(work).unwrap().join().unwrap();
    let unfinished = ferretto::slice!("app", "unfinished");
    assert!(ferretto::flush(LIMIT));
    session.stop(LIMIT).wait().unwrap();
    drop(unfinished);
    let trace = Trace::read(&session.read(LIMIT).wait().unwrap());
    assert_eq!(
        trace.to_string(),
        "\
thread worker
  app outer (id:7, who:me, list:[1, 2])
    instant app dynamic 1
    other inner
process / counter load
  3
  0.5
thread what_was_traced
  unfinished app unfinished
"
    );
    let outer = trace.find("outer").unwrap();
    assert_eq!(outer.argument("who"), Some(&Value::from("me")));
    assert_eq!(outer.walk().count(), 3);
    let inner = trace.find("inner").unwrap();
    assert!(inner.duration().unwrap() <= outer.duration().unwrap());
    let (begin, end) = (outer.begin, outer.end.unwrap());
    assert!(begin <= inner.begin && inner.end.unwrap() <= end);
    assert_eq!(trace.find("unfinished").unwrap().end, None);
    let load = [CounterValue::Integer(3), CounterValue::Double(0.5)];
    assert_eq!(trace.counter("load"), load);
}

#[test]
fn anything_can_be_read() {
    assert_eq!(Trace::read(b"no trace at all").to_string(), "");
}
