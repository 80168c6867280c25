//! Spans that are entered repeatedly, on several threads.

use std::collections::BTreeSet;
use std::thread::scope;

use ferretto_testing::sdk::events::{Decoded, Recorder};
use tracing::dispatcher::{Dispatch, with_default};
use tracing::{Span, info, info_span};
use tracing_ferretto::{FerrettoLayer, Spans};
use tracing_subscriber::prelude::*;

/// Polls a task twice, each time on another thread, and once more here.
fn poll(span: &Span) {
    for poll in 0..2 {
        let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
        scope(|threads| {
            threads.spawn(|| with_default(&dispatch, || span.in_scope(|| info!(poll))));
        });
    }
    span.in_scope(|| info_span!("inside").in_scope(|| info!("innermost")));
}

fn record(recorder: &mut Recorder, layer: FerrettoLayer, work: impl FnOnce()) -> Decoded {
    let subscriber = tracing_subscriber::registry().with(layer);
    recorder.record(None, || with_default(&Dispatch::new(subscriber), work))
}

/// Returns the events on the same track as the given one.
fn beside(decoded: &Decoded, index: usize) -> Vec<String> {
    let track = decoded.track(&decoded.events[index]);
    let events = decoded.events.iter();
    let here = events.filter(|event| decoded.track(event) == track);
    here.map(|event| event.line().replace(" level=\"INFO\"", ""))
        .collect()
}

// One test, since a process has one connection.
#[test]
fn spans_of_tasks_have_flows_or_tracks() {
    ferretto_testing::own_process!();
    let mut recorder = Recorder::new();

    let decoded = record(&mut recorder, FerrettoLayer::new(), || {
        poll(&info_span!("task", id = 7));
    });
    let begins: Vec<_> = decoded
        .events
        .iter()
        .filter(|event| event.name == "task")
        .collect();
    let threads: BTreeSet<_> = begins.iter().map(|event| event.sequence).collect();
    assert_eq!((begins.len(), threads.len()), (3, 3));
    assert!(begins.iter().all(|event| event.flows.is_empty()));
    assert!(
        begins
            .iter()
            .all(|event| event.line() == "B it::tasks task id=i7")
    );

    let decoded = record(
        &mut recorder,
        FerrettoLayer::new().spans(Spans::Flows),
        || {
            poll(&info_span!("task"));
            poll(&info_span!("task"));
        },
    );
    let begins = decoded.events.iter().filter(|event| event.name == "task");
    let flows: Vec<_> = begins.map(|event| event.flows[0]).collect();
    let different: BTreeSet<_> = flows.iter().collect();
    assert_eq!((flows.len(), different.len()), (6, 2));
    let count = |flow| flows.iter().filter(|other| *other == flow).count();
    assert!(flows.iter().all(|flow| count(flow) == 3));

    let layer = FerrettoLayer::new().spans_by(|metadata| match metadata.name() {
        "on its thread" => Spans::Threads,
        _ => Spans::Tracks,
    });
    let decoded = record(&mut recorder, layer, || {
        let one = info_span!("task", id = 1, status = tracing::field::Empty);
        let two = info_span!("task", id = 2);
        one.in_scope(|| info!("first"));
        poll(&two);
        one.in_scope(|| {
            let inner = info_span!("inner");
            let beside = info_span!("beside");
            inner.in_scope(|| info!("in the parent's lane"));
            beside.in_scope(|| info!("in its own lane"));
            info_span!("on its thread").in_scope(|| {});
        });
        info_span!(parent: &one, "after").in_scope(|| {});
        one.record("status", 200);
    });
    let find = |line: &str| {
        let mut lines = decoded.events.iter();
        let found = lines.position(|event| event.line().starts_with(line));
        found.unwrap_or_else(|| panic!("{line}: {:?}", decoded.lines()))
    };
    let one = find("B it::tasks task id=i1");
    let expected = [
        "B it::tasks task id=i1",
        "I it::tasks first",
        "B it::tasks inner",
        "I it::tasks in the parent's lane",
        "E",
        "B it::tasks after",
        "E",
        "E status=i200",
    ];
    assert_eq!(beside(&decoded, one), expected);
    let expected = ["B it::tasks beside", "I it::tasks in its own lane", "E"];
    assert_eq!(beside(&decoded, find("B it::tasks beside")), expected);
    let two = find("B it::tasks task id=i2");
    // A recording contains one thread after the other, not sorted by time.
    let mut lines = beside(&decoded, two);
    lines.sort();
    let expected = [
        "B it::tasks inside",
        "B it::tasks task id=i2",
        "E",
        "E",
        "I it::tasks innermost",
    ];
    let (events, lines): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.contains("poll="));
    assert_eq!(
        (events.len(), lines),
        (2, expected.map(String::from).iter().collect())
    );
    let name = |index: usize| &decoded.tracks[&decoded.events[index].track.unwrap()].name;
    assert_eq!([name(one), name(two)], ["task", "task"]);
    assert_eq!(
        decoded.events[find("B it::tasks on its thread")].track,
        None
    );
}
