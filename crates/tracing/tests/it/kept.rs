//! Values and tracks of spans, in different numbers and orders.

use std::time::Duration;

use ferretto_client::Consumer;
use ferretto_testing::sdk::events::Decoded;
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};
use tracing::dispatcher::{Dispatch, get_default, with_default};
use tracing::field::Empty;
use tracing::{Span, info, info_span};
use tracing_ferretto::{FerrettoLayer, Spans};
use tracing_subscriber::prelude::*;

fn subscriber() -> Dispatch {
    Dispatch::new(tracing_subscriber::registry().with(FerrettoLayer::new()))
}

fn begin(consumer: &mut Consumer) {
    start(consumer, config(vec![source("track_event", None)]));
}

fn end(consumer: &mut Consumer) -> Decoded {
    ferretto::flush(Duration::from_secs(30));
    let packets = stop(consumer);
    consumer.free_buffers(LIMIT).unwrap();
    Decoded::new(&packets)
}

/// Returns the lines of a recording of `work`.
fn record(consumer: &mut Consumer, work: impl FnOnce()) -> Vec<String> {
    begin(consumer);
    with_default(&subscriber(), work);
    let decoded = end(consumer);
    let lines = decoded.lines().into_iter();
    lines
        .map(|line| line.replace(" level=\"INFO\"", "").replace("kept ", ""))
        .collect()
}

/// Runs `work` on another thread.
fn elsewhere(work: impl FnOnce() + Send) {
    let dispatch = get_default(Dispatch::clone);
    std::thread::scope(|threads| {
        threads.spawn(|| with_default(&dispatch, work));
    });
}

/// Enters nested spans up to a depth, and exits them in reverse order.
fn nest(depth: u64) {
    if depth > 0 {
        let _bare = info_span!("bare").entered();
        let _with = info_span!("with", depth).entered();
        nest(depth - 1);
    }
}

fn nested(depth: u64) -> Vec<String> {
    let begins = (1..=depth).rev();
    let begins = begins.flat_map(|depth| {
        [
            "B it::bare".to_owned(),
            format!("B it::with depth=u{depth}"),
        ]
    });
    let ends = (0..2 * depth).map(|_| "E".to_owned());
    begins.chain(ends).collect()
}

/// Exits the outermost of many spans first.
fn leave_from_outside(count: u64) {
    let spans: Vec<_> = (0..count).map(|n| info_span!("span", n)).collect();
    let entered: Vec<_> = spans.iter().map(Span::enter).collect();
    let mut entered = entered.into_iter();
    entered.next();
    entered.next_back();
    info!("here");
}

fn numbers() {
    let mixed = info_span!("mixed", yes = true, a = -1, half = 0.5, b = 2u128);
    mixed.in_scope(|| {});
    info_span!("more", a = 1, b = 2, c = 3, d = 4, e = false).in_scope(|| {});
    info_span!("wide", a = u128::MAX, b = 1).in_scope(|| {});
    info_span!("none", a = Empty).in_scope(|| {});
    let later = info_span!("later", no = false, a = 7, b = Empty);
    let entered = later.enter();
    later.record("b", 8);
    // The span is entered again inside of another one.
    let inner = info_span!("inner").entered();
    later.record("a", 9);
    drop(entered);
    drop(inner);
    later.in_scope(|| {});
    // Values recorded by other threads go to later slices.
    let far = info_span!("far", a = 1, b = Empty);
    far.in_scope(|| {
        elsewhere(|| {
            far.record("b", 2);
        });
    });
    far.in_scope(|| {});
}

/// Creates more simultaneous spans than there are slots for their values, and closes them on
/// another thread.
fn many() {
    let spans: Vec<_> = (0..600).map(|n| info_span!("many", n)).collect();
    spans.iter().for_each(|span| span.in_scope(|| {}));
    elsewhere(move || drop(spans));
    // Their slots and ids are reused.
    info_span!("many", n = 600).in_scope(|| {});
    (0..600).for_each(|_| info_span!("bare").in_scope(|| {}));
}

/// Spans of two registries have the same ids.
fn two_registries() {
    let other = subscriber();
    let a = info_span!("a", n = 1);
    let b = with_default(&other, || info_span!("b", n = 2));
    assert_eq!(a.id(), b.id());
    let (in_a, in_b) = (a.enter(), b.enter());
    drop(in_b);
    b.in_scope(|| {});
    drop(in_a);
    drop(a);
    b.in_scope(|| {});
}

fn one() {
    info_span!("one").in_scope(|| {});
}

// One test, since a process has one connection.
#[test]
fn spans_have_their_own_values_however_they_are_stored() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new();
    options
        .address(service.producers.clone())
        .wait(LIMIT)
        .init()
        .unwrap();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();

    for depth in [1, 7, 8, 9, 40] {
        assert_eq!(record(&mut consumer, || nest(depth)), nested(depth));
    }

    for count in [3u64, 16, 17, 18, 30] {
        let lines = record(&mut consumer, || leave_from_outside(count));
        let begins = |from: u64| (from..count).map(|n| format!("B it::span n=u{n}"));
        let ends = |count: u64| (0..count).map(|_| "E".to_owned());
        let expected: Vec<_> = begins(0)
            // The first one ends after all others, which begin again; then the last one ends.
            .chain(ends(count))
            .chain(begins(1))
            .chain(ends(1))
            .chain(["I it::here".to_owned()])
            .collect();
        assert_eq!(lines[..expected.len()], expected);
        // The remaining slices end one after the other; inner ones end with the outer one and begin
        // again.
        let rest = &lines[expected.len()..];
        let begun = rest.iter().filter(|line| line.starts_with('B')).count();
        assert_eq!(rest.len(), 2 * begun + count as usize - 2);
    }

    let expected = [
        "B it::mixed yes=true a=i-1 half=d0.5 b=u2",
        "E",
        "B it::more a=i1 b=i2 c=i3 d=i4 e=false",
        "E",
        "B it::wide a=\"340282366920938463463374607431768211455\" b=i1",
        "E",
        "B it::none",
        "E",
        "B it::later no=false a=i7",
        "B it::inner",
        "E",
        "E b=i8 a=i9",
        "B it::inner",
        "E",
        "B it::later no=false b=i8 a=i9",
        "E",
        "B it::far a=i1",
        "E",
        "B it::far a=i1 b=i2",
        "E",
    ];
    assert_eq!(record(&mut consumer, numbers), expected);

    let lines = record(&mut consumer, many);
    let many = (0..=600).flat_map(|n| [format!("B it::many n=i{n}"), "E".to_owned()]);
    let bare = (0..1200).map(|n| ["B it::bare", "E"][n % 2].to_owned());
    assert_eq!(lines, many.chain(bare).collect::<Vec<_>>());

    let expected = [
        "B it::a n=i1",
        "B it::b n=i2",
        "E",
        "B it::b n=i2",
        "E",
        "E",
        "B it::b n=i2",
        "E",
    ];
    assert_eq!(record(&mut consumer, two_registries), expected);

    // Entered on a thread that did not create it.
    let lines = record(&mut consumer, || {
        let span = info_span!("away", n = 5u64);
        elsewhere(|| span.in_scope(|| info_span!("inside").in_scope(|| {})));
        elsewhere(move || drop(span));
        info_span!("bare").in_scope(|| {});
    });
    let expected = [
        "B it::away n=u5",
        "B it::inside",
        "E",
        "E",
        "B it::bare",
        "E",
    ];
    let mut sorted = lines.clone();
    sorted.sort();
    let mut expected_sorted = expected.map(String::from);
    expected_sorted.sort();
    assert_eq!(sorted, expected_sorted, "{lines:?}");

    // A later layer may have other options for the same callsites.
    begin(&mut consumer);
    for spans in [Spans::Threads, Spans::Tracks, Spans::Threads] {
        let layer = FerrettoLayer::new().spans(spans);
        let subscriber = tracing_subscriber::registry().with(layer);
        with_default(&Dispatch::new(subscriber), one);
    }
    let decoded = end(&mut consumer);
    let tracks: Vec<_> = decoded.events.iter().map(|event| event.track).collect();
    let own = tracks[2];
    assert!(own.is_some());
    assert_eq!(tracks, [None, None, own, own, None, None]);

    // A recording that starts while a thread is in a span does not contain that span.
    let mut second = Consumer::connect(&service.consumers, LIMIT).unwrap();
    begin(&mut consumer);
    with_default(&subscriber(), || {
        let bare = info_span!("bare").entered();
        let with = info_span!("with", n = 1).entered();
        begin(&mut second);
        drop(with);
        drop(bare);
        info_span!("both").in_scope(|| {});
    });
    let late = end(&mut second).lines();
    assert_eq!(late, ["B it::kept both", "E"]);
    let early = end(&mut consumer).lines();
    let expected = [
        "B it::kept bare",
        "B it::kept with n=i1",
        "E",
        "E",
        "B it::kept both",
        "E",
    ];
    assert_eq!(early, expected);
}
