//! The measured spans, and the subscribers that receive them.

use std::time::Instant;

use tracing::Dispatch;
use tracing::dispatcher::with_default;
use tracing_subscriber::registry;

use crate::{Side, Work};

/// The number of spans per turn.
const TIMES: u64 = 20_000;

/// The measured rows.
pub(crate) const ROWS: [Work; 2] = [("span", spans), ("span, 1 field", spans_with_a_field)];

fn spans(times: u64) {
    for _ in 0..times {
        let _span = tracing::info_span!(target: "bench", "span").entered();
    }
}

fn spans_with_a_field(times: u64) {
    for i in 0..times {
        let _span = tracing::info_span!(target: "bench", "span", i).entered();
    }
}

/// Returns the bare registry, and one with the layer of each side.
pub(crate) fn subscribers(sides: &[Box<dyn Side>]) -> Vec<Dispatch> {
    let mut subscribers = vec![Dispatch::new(registry())];
    subscribers.extend(sides.iter().map(|side| side.subscriber()));
    subscribers
}

/// Returns the shortest time of one span in nanoseconds, without a layer and with that of each
/// side.
pub(crate) fn shortest(sides: &mut [Box<dyn Side>], work: fn(u64), rounds: u32) -> Vec<f64> {
    let subscribers = subscribers(sides);
    let mut best = vec![f64::INFINITY; subscribers.len()];
    for _ in 0..rounds {
        for (subscriber, best) in subscribers.iter().zip(&mut best) {
            let time = with_default(subscriber, || {
                work(1);
                let start = Instant::now();
                work(TIMES);
                start.elapsed().as_nanos() as f64 / TIMES as f64
            });
            *best = best.min(time);
            for side in &mut *sides {
                side.flush();
            }
        }
    }
    best
}
