//! Runs many lives, and explains how to repeat a failed one.

use std::any::Any;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::life::{Life, length};
use crate::tally::Tally;
use crate::world::Log;

/// Runs the seeds from `first` on, on a few threads, and prints counts of their events. Stops at
/// the first that fails, with the command that repeats it.
pub fn live_many(first: u64, lives: u64, threads: u64) -> Tally {
    let (next, end) = (AtomicU64::new(first), first + lives);
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return Ok(tally);
            }
            match catch_unwind(|| Life::new(seed).live(length(seed)).0) {
                Ok(life) => tally.add(&life),
                Err(_) => {
                    next.store(end, Ordering::Relaxed);
                    return Err(seed);
                }
            }
        }
    };
    let results: Vec<Result<Tally, u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut sum = Tally::default();
    for result in results {
        match result {
            Ok(tally) => sum.add(&tally),
            Err(seed) => panic!("{}", explain(seed)),
        }
    }
    sum
}

/// Repeats a life, and prints all its events.
pub fn replay(seed: u64, steps: Option<u64>) {
    let mut life = Life::new(seed);
    life.world.log = Some(Log::new(true));
    let (tally, _) = life.live(steps.unwrap_or(length(seed)));
    println!("{tally:?}");
}

/// Returns the shortest prefix of the life that also fails, found by bisection.
fn explain(seed: u64) -> String {
    let breaks = |steps| {
        catch_unwind(|| Life::new(seed).live(steps))
            .err()
            .map(message)
    };
    let (mut holds, mut broken) = (0, length(seed));
    let mut last = breaks(broken).unwrap_or_else(|| "it did not break again".into());
    while broken - holds > 1 {
        let middle = holds + (broken - holds) / 2;
        match breaks(middle) {
            Some(text) => (broken, last) = (middle, text),
            None => holds = middle,
        }
    }
    format!(
        "life {seed} breaks after {broken} of {} steps: {last}\nto see it again:\n    \
         SERVICE_SEED={seed} SERVICE_STEPS={broken} cargo test -p ferretto-service --test simulation \
         random_lives_keep_the_invariants -- --nocapture",
        length(seed)
    )
}

fn message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => other
            .downcast_ref::<&str>()
            .map_or_else(String::new, |text| (*text).to_owned()),
    }
}
