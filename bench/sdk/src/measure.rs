//! Measurement of times.

use std::sync::Barrier;
use std::time::Instant;

use crate::{Side, TIMES, work};

/// The distribution of durations, in nanoseconds.
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p9999: u64,
    pub(crate) worst: u64,
}

/// Returns the shortest time of one event on `threads` threads for each side, in nanoseconds, over
/// several turns of each.
pub(crate) fn shortest(
    sides: &mut [Box<dyn Side>],
    name: &str,
    threads: u64,
    rounds: u32,
) -> Vec<Option<f64>> {
    let mut best = vec![None; sides.len()];
    for _ in 0..rounds {
        for (side, best) in sides.iter_mut().zip(&mut best) {
            let Some(work) = work(&**side, name) else {
                continue;
            };
            let time = on_threads(threads, work);
            *best = Some(best.map_or(time, |best: f64| best.min(time)));
            side.flush();
        }
    }
    best
}

/// Runs one turn. Returns the time from the start of the first thread to the end of the last,
/// divided by the number of events.
fn on_threads(threads: u64, work: fn(u64)) -> f64 {
    let times = TIMES / threads;
    if threads == 1 {
        // // A warm-up, so that one-time work per thread and recording is not measured.
        work(1);
        let start = Instant::now();
        work(times);
        return start.elapsed().as_nanos() as f64 / times as f64;
    }
    let ready = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    work(1);
                    ready.wait();
                    let start = Instant::now();
                    work(times);
                    (start, Instant::now())
                })
            })
            .collect();
        let spans: Vec<_> = all
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        let first = spans.iter().map(|(start, _)| *start).min();
        let last = spans.iter().map(|(_, end)| *end).max();
        let span = first.zip(last).map(|(first, last)| last - first);
        span.unwrap_or_default().as_nanos() as f64 / (times * threads) as f64
    })
}

/// Returns the shortest time of a new thread's first instant, in nanoseconds.
pub(crate) fn first_event(side: &mut dyn Side, rounds: u32) -> Option<f64> {
    let work = work(side, "instant")?;
    let one = move || {
        let start = Instant::now();
        work(1);
        start.elapsed().as_nanos() as f64
    };
    (0..rounds * 10)
        .map(|_| {
            let time = std::thread::spawn(one).join().expect("no panic");
            side.flush();
            time
        })
        .reduce(f64::min)
}

/// Measures `count` single calls. Each includes one read of the clock.
pub(crate) fn one_by_one(count: usize, work: impl Fn(u64)) -> Spread {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        work(1);
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    let at = |share: f64| times[((count - 1) as f64 * share) as usize];
    Spread {
        mean: times.iter().sum::<u64>() as f64 / count as f64,
        p50: at(0.5),
        p99: at(0.99),
        p9999: at(0.9999),
        worst: at(1.0),
    }
}

/// Returns the shortest time of a read of the clock of events, in nanoseconds.
pub(crate) fn clock() -> f64 {
    let clock = ferretto_shm::Clock::Boottime;
    let turn = || {
        let start = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(clock.now());
        }
        start.elapsed().as_nanos() as f64 / TIMES as f64
    };
    (0..15).map(|_| turn()).fold(f64::INFINITY, f64::min)
}
