//! Slices, counters and states that a program writes with the SDK.

use std::thread;
use std::time::{Duration, Instant};

use crate::compare::{Topic, exactly};
use crate::programs::{known, program, record};
use crate::readers::{Intervals, Readers};
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
