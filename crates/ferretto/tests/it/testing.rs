//! Tests of recordings that are read back.

use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto::testing::{Capture, CounterValue, Trace, Value};
use ferretto_testing::sdk::{LIMIT, Service};

fn work() {
    let _outer = ferretto::slice!("app", "outer", id = 7, who = "me", list = [1, 2]);
    ferretto::instant!("app", &format!("dynamic {}", 1));
    ferretto::counter!("app", "load", 3);
    ferretto::counter!("app", "load", 0.5);
    ferretto::begin!("other", "inner");
    ferretto::end!("other");
}

#[test]
fn traced_events_form_a_tree() {
    ferretto_testing::own_process!();
    let service = Service::start();
    ferretto::Options::new()
        .address(service.producers.clone())
        .wait(LIMIT)
        .init()
        .unwrap();
    let session = Session::open(Backend::At(service.consumers.clone())).unwrap();
    session.set_up(RecordingConfig::new().track_events(TrackEvents::only(&["app", "other"])));
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
thread testing::traced
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
fn malformed_input_is_readable() {
    ferretto_testing::own_process!();
    assert_eq!(Trace::read(b"no trace at all").to_string(), "");
}

#[test]
fn only_the_closures_events_are_captured() {
    ferretto_testing::own_process!();
    let captures: Vec<_> = (0..16)
        .map(|number: u64| {
            std::thread::spawn(move || {
                let trace = ferretto::testing::capture(|| {
                    let _slice = ferretto::slice!("capture", "work", number = number);
                    ferretto::counter!("capture", "load", number);
                });
                ferretto::instant!("capture", "afterwards");
                (number, trace)
            })
        })
        .collect();
    for capture in captures {
        let (number, trace) = capture.join().unwrap();
        let expected = format!(
            "thread\n  capture work (number:{number})\nprocess / counter load\n  {number}\n"
        );
        let text = trace
            .to_string()
            .replacen("thread testing::only_t", "thread", 1);
        assert_eq!(text, expected);
    }
}

#[test]
fn a_capture_can_include_other_threads() {
    ferretto_testing::own_process!();
    let work = || {
        let thread = std::thread::Builder::new().name("helper".to_owned());
        let helper = thread.spawn(|| ferretto::instant!("helpers", "help"));
        helper.unwrap().join().unwrap();
        7
    };
    let events = || TrackEvents::only(&["helpers"]);
    let (result, trace) = Capture::new()
        .track_events(events())
        .all_threads()
        .run(work);
    assert_eq!(result, 7);
    assert_eq!(trace.to_string(), "thread helper\n  instant helpers help\n");
    let (_, trace) = Capture::new().track_events(events()).run(work);
    assert_eq!(trace.to_string(), "");
}

#[test]
fn a_large_capture_loses_nothing() {
    ferretto_testing::own_process!();
    let trace = ferretto::testing::capture(|| {
        for number in 0..50_000 {
            ferretto::instant!("much", "event", number = number);
        }
    });
    assert!(!trace.has_losses);
    assert_eq!(trace.instants().count(), 50_000);
}
