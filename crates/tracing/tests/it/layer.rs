//! Recording of spans and events.

use std::cell::Cell;
use std::fmt;
use std::panic::catch_unwind;

use ferretto_testing::sdk::events::{Decoded, Recorder};
use ferretto_wire::encode;
use tracing::{Level, debug, debug_span, error, info, info_span, trace, warn};

thread_local! {
    static FORMATTED: Cell<u32> = const { Cell::new(0) };
}

/// Counts how often it is formatted.
struct Counted;

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FORMATTED.set(FORMATTED.get() + 1);
        f.write_str("counted")
    }
}

#[tracing::instrument(skip(hidden))]
fn function(shown: &str, hidden: Counted) -> usize {
    let Counted = hidden;
    info!(target: "elsewhere", "inside");
    shown.len()
}

fn values() {
    let span = info_span!(
        "values",
        int = -1,
        uint = u64::MAX,
        float = 0.5,
        yes = true,
        text = "a\0b",
        debug = ?Some(1),
        display = %1.5,
        wide = i128::MAX,
        narrow = 7u128,
        never = tracing::field::Empty,
        later = tracing::field::Empty,
    );
    let entered = span.enter();
    span.record("later", 5);
    drop(entered);
    let _again = span.enter();
    span.record("later", 6);
    span.record("uint", 1u64);
}

const FIELDS_LINE: u32 = line!() + 5;

fn events() {
    error!("failed");
    warn!(code = 3, "text with {} parts", 2);
    info!(only = "fields");
    let error: Box<dyn std::error::Error> = Box::new("x".parse::<u8>().unwrap_err());
    info!(error, "with an error");
    debug!("not by default");
    trace!("not by default");
    let _span = debug_span!("not by default").entered();
}

fn names() {
    info!(counter.requests = 3);
    info!(counter.heap.bytes = 0.5, "and an instant");
    info!(flow = 7, "sent");
    info!(flow.jobs = 8u64, "job");
    info!(flow.end = 7, "received");
    let _span = info_span!("with both", counter.depth = 1, flow.jobs.end = 8, x = 1).entered();
}

fn out_of_order() {
    let a = info_span!("a", number = 1);
    let b = info_span!("b", number = 2);
    let (in_a, in_b) = (a.enter(), b.enter());
    drop(in_a);
    info!("still in b");
    drop(in_b);
    // The same span twice.
    let twice = a.enter();
    let _ = a.in_scope(|| 5);
    drop(twice);
}

fn following() {
    let cause = info_span!("cause");
    let effect = info_span!("effect");
    cause.in_scope(|| effect.follows_from(&cause));
    effect.in_scope(|| {});
}

/// Returns the events of a recording, without the level if it is INFO.
fn lines(decoded: &Decoded) -> Vec<String> {
    let lines = decoded.lines().into_iter();
    lines
        .map(|line| line.replace(" level=\"INFO\"", ""))
        .collect()
}

// One test, since a process has one connection.
#[test]
fn spans_and_events_are_recorded() {
    ferretto_testing::own_process!();
    let mut recorder = Recorder::new();
    tracing_ferretto::FerrettoLayer::new().init().unwrap();
    let again = tracing_ferretto::init().unwrap_err();
    assert_eq!(
        again.to_string(),
        "another subscriber is already the global default; add a FerrettoLayer to it"
    );

    // Without a recording, callsites are disabled and nothing is formatted.
    assert!(!tracing::enabled!(Level::ERROR));
    function("abc", Counted);
    info!(value = ?Counted);
    let span = info_span!("unseen", value = ?Counted);
    assert!(span.is_disabled());
    assert_eq!(FORMATTED.get(), 0);

    let decoded = recorder.record(None, || {
        assert!(tracing::enabled!(Level::INFO) && !tracing::enabled!(Level::DEBUG));
        assert_eq!(function("abc", Counted), 3);
        info!(value = ?Counted, "text");
        // Created before the recording, so its values are unknown.
        span.in_scope(|| {});
    });
    let expected = [
        "B it::layer function shown=\"abc\"",
        "I elsewhere inside",
        "E",
        "I it::layer text value=\"counted\"",
    ];
    assert_eq!(lines(&decoded), expected);
    assert_eq!(FORMATTED.get(), 1);
    assert!(!tracing::enabled!(Level::ERROR), "the recording has ended");

    let decoded = recorder.record(None, values);
    let before = "int=i-1 uint=u18446744073709551615 float=d0.5 yes=true text=\"a\\0b\" \
                  debug=\"Some(1)\" display=\"1.5\" wide=\"170141183460469231731687303715884105727\" \
                  narrow=u7";
    let expected = [
        format!("B it::layer values {before}"),
        "E later=i5".to_owned(),
        format!("B it::layer values {before} later=i5"),
        "E later=i6 uint=u1".to_owned(),
    ];
    assert_eq!(lines(&decoded), expected);

    let decoded = recorder.record(None, events);
    let expected = [
        "I it::layer failed level=\"ERROR\"",
        "I it::layer text with 2 parts level=\"WARN\" code=i3",
        &format!(
            "I it::layer event {}:{FIELDS_LINE} only=\"fields\"",
            file!()
        ),
        "I it::layer with an error error=\"invalid digit found in string\"",
    ];
    assert_eq!(lines(&decoded), expected);
    // All levels.
    let all = encode(|config| {
        config.string(4, "debug");
        config.string(4, "slow");
    });
    let decoded = recorder.record(Some(all), events);
    assert_eq!(lines(&decoded).len(), 4 + 4);

    let decoded = recorder.record(None, names);
    let expected = [
        "C 3",
        "C 0.5",
        "I it::layer and an instant",
        "I it::layer sent",
        "I it::layer job",
        "I it::layer received",
        "C 1",
        "B it::layer with both x=i1",
        "E",
    ];
    assert_eq!(lines(&decoded), expected);
    let events = &decoded.events;
    let counter = |index: usize| &decoded.tracks[&events[index].track.unwrap()].name;
    assert_eq!(
        [counter(0), counter(1), counter(6)],
        ["requests", "heap", "depth"]
    );
    assert_eq!(events[3].flows, events[5].ended_flows);
    assert_eq!(events[4].flows, events[7].ended_flows);
    assert_ne!(events[3].flows, events[4].flows);

    let decoded = recorder.record(None, out_of_order);
    let expected = [
        "B it::layer a number=i1",
        "B it::layer b number=i2",
        "E",
        "E",
        "B it::layer b number=i2",
        "I it::layer still in b",
        "E",
        "B it::layer a number=i1",
        "B it::layer a number=i1",
        "E",
        "E",
    ];
    assert_eq!(lines(&decoded), expected);

    let decoded = recorder.record(None, following);
    let [begin, end, effect, _] = &decoded.events[..] else {
        panic!("{decoded:?}");
    };
    assert!(begin.flows.is_empty());
    assert_eq!((end.flows.len(), &end.flows), (1, &effect.flows));

    // A panic exits its spans.
    let decoded = recorder.record(None, || {
        let panics = || {
            info_span!("outer").in_scope(|| info_span!("inner").in_scope(|| panic!("on purpose")))
        };
        catch_unwind(panics).unwrap_err();
    });
    assert_eq!(
        lines(&decoded),
        ["B it::layer outer", "B it::layer inner", "E", "E"]
    );

    // A recording selects by category.
    let filter = encode(|config| {
        config.string(1, "*");
        config.string(2, "else*");
    });
    let decoded = recorder.record(Some(filter), || {
        function("abc", Counted);
    });
    assert_eq!(lines(&decoded), ["I elsewhere inside"]);
}
