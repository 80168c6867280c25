//! The trace points of the script, with our library. `official/script.rs` has the same with the
//! official SDK; [`more`] has trace points that the official SDK does not support.

use std::thread;

use ferretto::{CounterTrack, Flow, StateTrack, Track, begin, counter, end, instant, slice, state};

static FLOOR: Track<'_> = Track::named("floor", 1);
static LANE: Track<'_> = Track::named("lane", 1);

/// Runs the threads of the script one after the other.
pub(crate) fn run() {
    in_turn(&[
        ("alpha", arguments),
        ("beta", flows_and_counters),
        ("gamma", tracks),
    ]);
}

/// Runs the trace points that only our library supports.
pub(crate) fn more() {
    in_turn(&[("delta", values), ("epsilon", kinds)]);
}

fn in_turn(threads: &[(&str, fn())]) {
    for (name, work) in threads {
        let thread = thread::Builder::new().name((*name).to_owned()).spawn(*work);
        thread.expect("a thread starts").join().expect("no panic");
    }
}

fn arguments() {
    let _outer = slice!(
        "interop",
        "outer",
        yes = true,
        most = u64::MAX,
        least = i64::MIN,
        half = 0.5,
        text = "tëxt",
        nothing = "",
        address = std::ptr::without_provenance::<u8>(0xdead),
    );
    for round in 0..3i64 {
        let _inner = slice!("interop", "inner", round = round);
        instant!("interop", "tick");
        instant!("silent", "never");
    }
    instant!("interop", &format!("made at {} time", "run"));
    instant!("interop", "located", extension: |event| {
        event.nested(33, |location| {
            location.string(2, "file.rs");
            location.varint(4, 12);
        });
    });
    instant!("interop", "hand over", flow: Flow::process(42));
}

fn flows_and_counters() {
    begin!("interop", "taken over", terminating_flow: Flow::process(42));
    end!("interop");
    for value in [10, -3, 12] {
        counter!("interop", "load", value);
    }
    counter!("interop", "ratio", 0.25);
}

fn tracks() {
    begin!("interop", "on a lane", track: &LANE);
    instant!("interop", "within", track: &LANE);
    end!("interop", track: &LANE);
    instant!("interop", "deep", track: Track::named("room", 2).child_of(&FLOOR));
    instant!("interop", "done");
}

fn values() {
    let list = vec![1u8, 2, 3];
    let map = std::collections::BTreeMap::from([("one", 1.5), ("two", f64::NAN)]);
    instant!(
        "interop",
        "containers",
        list = list,
        map = map,
        "some text" = 'c'
    );
    instant!("interop", "missing", none = None::<u32>, unit = ());
    instant!(ferretto::dynamic("interop"), "category made at run time");
    instant!(ferretto::dynamic("other"), "never");
}

fn kinds() {
    static SUM: CounterTrack<'_> = CounterTrack::new("sum").incremental();
    static DOOR: StateTrack<'_> = StateTrack::new("door");
    for value in [10, 15, 12] {
        counter!("interop", SUM, value);
    }
    state!("interop", DOOR, "open");
    state!("interop", DOOR, None);
    let id = 7;
    begin!("interop", "asynchronous", track: Track::new(id));
    instant!("interop", "belongs to seven", correlation: 7u64);
    end!("interop", track: Track::new(id));
    instant!("interop", "of everyone", track: Track::named("world", 0).global());
}
