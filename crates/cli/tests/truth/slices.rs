//! Slices, counters and states that a program writes with the SDK.

use std::thread;
use std::time::{Duration, Instant};

use crate::compare::{Topic, exactly};
use crate::programs::{known, program, record};
use crate::readers::{Counter, Intervals, Readers, named, whole};
use crate::world::World;

pub(crate) const SLICES: Topic = Topic {
    name: "nested slices",
    numbers: 6,
};

/// A time that a program measures around its slices, and another within them.
#[derive(Debug, Default)]
struct Measured {
    around: Duration,
    within: Duration,
}

impl Measured {
    /// Measures the call of `body` in the call of `slice`.
    fn call(&mut self, slice: impl FnOnce(&mut dyn FnMut()), mut body: impl FnMut()) {
        let begin = Instant::now();
        let within = &mut self.within;
        slice(&mut || {
            let begin = Instant::now();
            body();
            *within += begin.elapsed();
        });
        self.around += begin.elapsed();
    }

    fn print(&self, name: &str) {
        known(&format!("{name}: at most"), self.around.as_nanos());
        known(&format!("{name}: at least"), self.within.as_nanos());
    }
}

/// The numbers of slices on tracks of their own, and of values of a counter.
const HANDED_OVER: i64 = 12;
const VALUES: i64 = 50;

pub(crate) const EVENTS: Topic = Topic {
    name: "tracks, counters and states",
    numbers: 11,
};

#[test]
fn program_of_nested_slices() {
    program("slices::program_of_nested_slices", || {
        ferretto::init().expect("recording starts");
        let (mut outer, mut inner) = (Measured::default(), Measured::default());
        for _ in 0..5 {
            let slice = |body: &mut dyn FnMut()| {
                let _slice = ferretto::slice!("truth", "outer");
                body();
            };
            outer.call(slice, || {
                for _ in 0..3 {
                    let slice = |body: &mut dyn FnMut()| {
                        let _slice = ferretto::slice!("truth", "inner");
                        body();
                    };
                    inner.call(slice, || thread::sleep(Duration::from_millis(2)));
                }
            });
        }
        outer.print("outer");
        inner.print("inner");
    });
}

#[test]
fn nested_slices() {
    let world = World::new();
    let known = record(&world, &[], "slices::program_of_nested_slices");
    let readers = Readers::of(&world, "t");
    let mut all = SLICES.compare();
    for (name, count) in [("outer", 5), ("inner", 15)] {
        let slices = |number: fn(Intervals) -> i64| readers.slices(name, number);
        all.number(
            &format!("{name}: count"),
            exactly(count),
            &slices(|of| of.count),
        );
        all.number(&format!("{name}: open"), exactly(0), &readers.open(name));
        let least = known.get(&format!("{name}: at least"));
        let most = known.get(&format!("{name}: at most"));
        all.number(
            &format!("{name}: total"),
            least..=most,
            &slices(|of| of.total),
        );
    }
    all.finish();
}

#[test]
fn program_of_tracks_counters_and_states() {
    program("slices::program_of_tracks_counters_and_states", || {
        ferretto::init().expect("recording starts");
        let (sender, receiver) = std::sync::mpsc::channel::<u64>();
        let ender = thread::spawn(move || {
            for id in receiver {
                ferretto::end!("truth", track: ferretto::Track::named("request", id));
            }
        });
        // All are open at once, begin on one thread, and end on another.
        for id in 0..HANDED_OVER as u64 {
            let track = ferretto::Track::named("request", id);
            ferretto::begin!("truth", "handed over", track: track);
        }
        for id in 0..HANDED_OVER as u64 {
            sender.send(id).expect("the other thread runs");
        }
        drop(sender);
        ender.join().expect("no panic");
        for value in 0..VALUES {
            // Down and up again: the last value is neither the lowest nor the highest.
            ferretto::counter!("truth", "level", (value - 30).abs());
            ferretto::instant!("truth", "moment");
        }
        for state in ["cold", "warm", "hot", "warm"] {
            ferretto::state!("truth", "oven", state);
        }
        ferretto::state!("truth", "oven", None);
    });
}

#[test]
fn tracks_counters_and_states() {
    let world = World::new();
    record(&world, &[], "slices::program_of_tracks_counters_and_states");
    let readers = Readers::of(&world, "t");
    let mut all = EVENTS.compare();
    let slices = |number: fn(Intervals) -> i64| readers.slices("handed over", number);
    all.number(
        "handed over: count",
        exactly(HANDED_OVER),
        &slices(|of| of.count),
    );
    all.number(
        "handed over: open",
        exactly(0),
        &readers.open("handed over"),
    );
    all.number("handed over: total", 1.., &slices(|of| of.total));
    all.number("handed over: longest", 1.., &slices(|of| of.longest));
    let moments = readers.slices_of_tables("moment", |of| of.count);
    all.number("moments", exactly(VALUES), &moments);
    for (name, known, number) in [
        ("count", VALUES, Counter::count as fn(&Counter) -> i64),
        ("lowest", 0, Counter::lowest),
        ("highest", 30, Counter::highest),
        ("last", 19, Counter::last),
    ] {
        let answers = readers.counter("level", number);
        all.number(&format!("level: {name}"), exactly(known), &answers);
    }
    let state = &readers.tables().state;
    for (name, count) in [("warm", 2), ("hot", 1)] {
        let rows = (0..state.len()).filter(|row| readers.text(state.value().get(*row)) == name);
        let of_view = named(&readers.range["names"], name).map(|of| whole(&of["count"]));
        let answers = [("tables", Some(rows.count() as i64)), ("view", of_view)];
        all.number(&format!("{name}: count"), exactly(count), &answers);
    }
    all.finish();
}
