//! Spans of `tracing`, with the layer of either side and without a layer.

use tracing::dispatcher::with_default;

use crate::measure::one_by_one;
use crate::span_work::{ROWS, shortest, subscribers};
use crate::{SINGLE, Side, print_spread, tsc};

/// The allowed time of a span with our layer, as a multiple of the time with the bare registry.
const BARS: [(&str, &str); 1] = [("span", "2×")];

/// Returns true if the name of any row contains `filter`.
pub(crate) fn matches(filter: &str) -> bool {
    "tracing".contains(filter) || ROWS.iter().any(|(name, _)| name.contains(filter))
}

/// Prints the cost of a span: with the bare registry, and with the layer of each side.
pub(crate) fn print(sides: &mut [Box<dyn Side>], tsc: &tsc::Figures, rounds: u32) {
    let names: Vec<_> = sides.iter().map(|side| side.name()).collect();
    println!(
        "\n| `tracing` | bare registry | {} | ours to bare | bar |",
        names.join(" | ")
    );
    println!("|---|--:|{}--:|--:|", "--:|".repeat(sides.len()));
    for (name, work) in ROWS {
        let best = shortest(sides, work, rounds);
        print_row(name, "", &best);
        if let Some(&[bare, ours]) = tsc.get(name) {
            let best = [&[bare, ours], &best[2..]].concat();
            print_row(name, tsc::SUFFIX, &best);
        }
    }
}

fn print_row(name: &str, suffix: &str, best: &[f64]) {
    let times: Vec<_> = best.iter().map(|time| format!("{time:.1} ns")).collect();
    let ratio = best[1] / best[0];
    let bar = BARS.iter().find(|(other, _)| *other == name);
    let bar = bar.map_or("", |(_, bar)| bar);
    let times = times.join(" | ");
    println!("| {name}{suffix} | {times} | {ratio:.2}× | {bar} |");
}

/// Prints the durations of single spans, with the bare registry and with the layer of each side.
pub(crate) fn print_single(sides: &mut [Box<dyn Side>]) {
    let names = sides.iter().map(|side| side.name());
    let names: Vec<_> = ["bare registry"].into_iter().chain(names).collect();
    let subscribers = subscribers(sides);
    for (name, work) in ROWS {
        for (subscriber, who) in subscribers.iter().zip(&names) {
            let spread = with_default(subscriber, || one_by_one(SINGLE, work));
            print_spread(name, who, spread);
            sides.iter_mut().for_each(|side| side.flush());
        }
    }
}
