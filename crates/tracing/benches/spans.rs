//! The cost of a span: with the registry of `tracing-subscriber` alone, and with the layer.
//!
//! Prints nanoseconds, the best of many runs, for a span without fields, with one and with three,
//! and for an event. Runs of different kinds alternate, so that disturbances affect all of them.
//! Recordings are made in the process, into a ring.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ferretto::Backends;
use ferretto::session::{Backend, Buffer, RecordingConfig, Session, TrackEvents};
use tracing::dispatcher::{Dispatch, with_default};
use tracing_ferretto::{FerrettoLayer, Spans};
use tracing_subscriber::prelude::*;

const LIMIT: Duration = Duration::from_secs(30);
const RUNS: usize = 60;
const TIMES: u64 = 2000;

/// The best time of each operation so far.
type Times = [f64; 4];

fn best(time: &mut f64, mut operation: impl FnMut(u64)) {
    let start = Instant::now();
    for number in 0..TIMES {
        operation(black_box(number));
    }
    *time = time.min(start.elapsed().as_nanos() as f64 / TIMES as f64);
}

fn run(dispatch: &Dispatch, times: &mut Times) {
    with_default(dispatch, || {
        best(&mut times[0], |_| {
            drop(tracing::info_span!("span").entered())
        });
        best(&mut times[1], |n| {
            drop(tracing::info_span!("span", n).entered())
        });
        best(&mut times[2], |n| {
            drop(tracing::info_span!("span", n, text = "text", half = 0.5).entered());
        });
        best(&mut times[3], |n| tracing::info!(n, "event"));
    });
}

/// Measures the same operations without `tracing`.
fn run_macros(times: &mut Times) {
    static SPANS: ferretto::Category = ferretto::Category::new("spans");
    best(&mut times[0], |_| drop(ferretto::slice!(SPANS, "span")));
    best(&mut times[1], |n| {
        drop(ferretto::slice!(SPANS, "span", n = n))
    });
    best(&mut times[2], |n| {
        drop(ferretto::slice!(
            SPANS,
            "span",
            n = n,
            text = "text",
            half = 0.5
        ));
    });
    best(&mut times[3], |n| ferretto::instant!(SPANS, "event", n = n));
}

fn main() {
    ferretto::Options::new()
        .backends(Backends::IN_PROCESS)
        .wait(LIMIT)
        .init()
        .unwrap();
    let session = Session::open(Backend::InProcess).unwrap();
    let layer = |spans| tracing_subscriber::registry().with(FerrettoLayer::new().spans(spans));
    let kinds = [
        (
            "registry alone",
            Dispatch::new(tracing_subscriber::registry()),
        ),
        ("layer", Dispatch::new(layer(Spans::Threads))),
        ("layer, recorded()", {
            let layer = FerrettoLayer::new().recorded();
            Dispatch::new(tracing_subscriber::registry().with(layer))
        }),
        ("layer, flows", Dispatch::new(layer(Spans::Flows))),
        ("layer, tracks", Dispatch::new(layer(Spans::Tracks))),
    ];
    println!(
        "{:24}{:>10}{:>10}{:>10}{:>10}",
        "ns", "span", "1 field", "3 fields", "event"
    );
    for is_recorded in [false, true] {
        if is_recorded {
            let config = RecordingConfig::new()
                .buffer(Buffer::ring(4096))
                .track_events(TrackEvents::new());
            session.set_up(config);
            session.start(LIMIT).wait().unwrap();
        }
        let mut slice = [f64::MAX; 4];
        println!(
            "{}",
            if is_recorded {
                "recorded"
            } else {
                "not recorded"
            }
        );
        let mut times = vec![[f64::MAX; 4]; kinds.len()];
        for _ in 0..RUNS {
            for ((_, dispatch), times) in kinds.iter().zip(&mut times) {
                run(dispatch, times);
            }
            run_macros(&mut slice);
        }
        let [plain, one, three, event] = slice;
        println!(
            "  {:22}{plain:10.1}{one:10.1}{three:10.1}{event:10.1}",
            "ferretto's macros"
        );
        for ((name, _), [plain, one, three, event]) in kinds.iter().zip(times) {
            println!("  {name:22}{plain:10.1}{one:10.1}{three:10.1}{event:10.1}");
        }
    }
}
