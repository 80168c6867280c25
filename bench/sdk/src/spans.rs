//! Spans of `tracing`, through the layer of either side and through none.

use std::time::Instant;

use tracing::Dispatch;
use tracing::dispatcher::with_default;
use tracing_subscriber::registry;

use crate::{Side, Work};

/// How often in one turn.
const TIMES: u64 = 20_000;

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

/// Prints what a span costs: with the bare registry, and with the layer of each side on it.
pub(crate) fn print(sides: &mut [Box<dyn Side>], rounds: u32) {
    let names: Vec<_> = sides.iter().map(|side| side.name()).collect();
    println!(
        "\n| `tracing` | bare registry | {} | ours to bare |",
        names.join(" | ")
    );
    println!("|---|--:|{}--:|", "--:|".repeat(sides.len()));
    let rows: [Work; 2] = [("span", spans), ("span, 1 field", spans_with_a_field)];
    for (name, work) in rows {
        let best = shortest(sides, work, rounds);
        let times: Vec<_> = best.iter().map(|time| format!("{time:.1} ns")).collect();
        let ratio = best[1] / best[0];
        println!("| {name} | {} | {ratio:.2}× |", times.join(" | "));
    }
}

/// The shortest time of one span in nanoseconds, without a layer and with that of each side.
fn shortest(sides: &mut [Box<dyn Side>], work: fn(u64), rounds: u32) -> Vec<f64> {
    let mut subscribers = vec![Dispatch::new(registry())];
    subscribers.extend(sides.iter().map(|side| side.subscriber()));
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
