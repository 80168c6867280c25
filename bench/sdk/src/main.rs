//! The cost of tracing in a program with our SDK and, with the feature `upstream`, with the
//! official one, in turns.
//!
//! `ferretto-bench-sdk [NAME] [ROUNDS]`: only rows whose name contains NAME; 15 rounds by default.

mod another;
mod measure;
mod memory;
#[cfg(feature = "upstream")]
mod official;
mod ours;
mod span_work;
mod spans;
mod tsc;

use ferretto::track_event::EventClock;
use ferretto_wire::{Fields, encode};
use tracing::Dispatch;

use crate::measure::{Spread, one_by_one, shortest};

/// The shared memory of either side, in KiB: the events of one turn fit in.
const MEMORY_KB: u32 = 16 * 1024;
/// The size of the ring buffer.
const RING_KB: u32 = 16 * 1024;
/// The data source for packets other than track events.
const PACKETS: &str = "ferretto.bench.packets";
/// The number of events in one turn.
const TIMES: u64 = 50_000;
/// The number of events measured individually.
const SINGLE: usize = 100_000;

/// A name, and a function that does the work a number of times.
type Work = (&'static str, fn(u64));

/// An SDK that does the work.
trait Side {
    fn name(&self) -> &'static str;
    fn work(&self) -> &'static [Work];
    /// Returns a `tracing` subscriber with this side's layer.
    fn subscriber(&self) -> Dispatch;
    /// Empties the memory shared with the service.
    fn flush(&mut self);
    /// Ends the recording and returns it.
    fn stop(self: Box<Self>) -> Vec<u8>;
}

/// Returns the config of track events: the category of the measured events, and that of the
/// official layer's spans.
fn categories() -> Vec<u8> {
    encode(|config| {
        config.string(1, "*");
        config.string(2, "bench");
        config.string(2, "tracing");
    })
}

fn main() {
    let mut filter = String::new();
    let mut rounds = 15;
    for argument in std::env::args().skip(1) {
        match argument.parse() {
            Ok(number) => rounds = number,
            Err(_) => filter = argument,
        }
    }
    if filter == tsc::ARGUMENT {
        return tsc::print(rounds);
    }
    let mut sides = sides();
    if let Some(name) = filter.strip_prefix(memory::ARGUMENT) {
        let side = sides.iter_mut().find(|side| side.name() == name);
        let bytes = side.map_or(f64::NAN, |side| memory::of_a_writer(&mut **side));
        println!("{:.1}", bytes / 1024.0);
        return;
    }

    println!("clock read: {:.1} ns", measure::clock());
    let tsc = tsc::Figures::measure(rounds);
    let names: Vec<_> = names(&sides, &filter);
    print_head("one event", &sides);
    for name in &names {
        let mut best = shortest(&mut sides, name, 1, rounds);
        print_row(name, "", &best);
        if let Some(&[ours]) = tsc.get(name) {
            best[0] = Some(ours);
            print_row(name, tsc::SUFFIX, &best);
        }
    }
    for threads in [2, 4, 8] {
        for name in names
            .iter()
            .filter(|name| ["instant", "slice"].contains(name))
        {
            let best = shortest(&mut sides, name, threads, rounds);
            print_row(name, &format!(", {threads} threads"), &best);
        }
    }
    let best: Vec<_> = sides
        .iter_mut()
        .map(|side| measure::first_event(&mut **side, rounds))
        .collect();
    print_row("first event of a thread", "", &best);

    if spans::matches(&filter) {
        spans::print(&mut sides, &tsc, rounds);
    }

    println!(
        "\n| single events, with the clock read around them | who | mean | p50 | p99 | p99.99 | worst |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|");
    print_spread("nothing", "", one_by_one(SINGLE, |_| {}));
    for name in names
        .iter()
        .filter(|name| ["instant", "slice", "instant, 1 integer"].contains(name))
    {
        for side in &mut sides {
            let Some(work) = work(&**side, name) else {
                continue;
            };
            side.flush();
            let spread = one_by_one(SINGLE, work);
            print_spread(name, side.name(), spread);
        }
    }
    if spans::matches(&filter) {
        spans::print_single(&mut sides);
    }

    println!("\n| memory | who | each thread |");
    println!("|---|---|--:|");
    for side in &sides {
        // // In a separate process, whose memory has not been used before.
        let kib = memory::in_another_process(side.name());
        println!("| a thread that traces | {} | {kib} KiB |", side.name());
    }

    println!();
    for side in sides {
        let name = side.name();
        let trace = side.stop();
        let lost = losses(&trace);
        let megabytes = trace.len() as f64 / 1e6;
        println!(
            "{name}: a trace of {megabytes:.1} MB; {lost} times there was no memory to write to"
        );
    }
}

/// Starts a recording with every available side.
fn sides() -> Vec<Box<dyn Side>> {
    vec![
        Box::new(ours::Ours::start(EventClock::default())),
        #[cfg(feature = "upstream")]
        Box::new(official::Official::start()),
    ]
}

/// Returns the work of a side with this name.
fn work(side: &dyn Side, name: &str) -> Option<fn(u64)> {
    let mut work = side.work().iter();
    Some(work.find(|(other, _)| *other == name)?.1)
}

/// Returns the names of all work, in the order of the last side.
fn names(sides: &[Box<dyn Side>], filter: &str) -> Vec<&'static str> {
    let work = sides.last().map_or(&[][..], |side| side.work());
    let names = work.iter().map(|(name, _)| *name);
    names.filter(|name| name.contains(filter)).collect()
}

/// Returns how often the service noticed that a writer had lost packets, from a trace's statistics.
fn losses(trace: &[u8]) -> u64 {
    let mut losses = 0;
    let stats = Fields::new(trace)
        .filter_map(|packet| packet.ok()?.as_bytes())
        .filter_map(|packet| Fields::find(35, packet)?.as_bytes())
        .last()
        .unwrap_or_default();
    for field in Fields::new(stats).filter_map(Result::ok) {
        if let (1, Some(buffer)) = (field.number, field.as_bytes()) {
            losses += Fields::find(19, buffer)
                .and_then(|f| f.as_u64())
                .unwrap_or(0);
        }
    }
    losses
}

fn print_head(what: &str, sides: &[Box<dyn Side>]) {
    let names: Vec<_> = sides.iter().map(|side| side.name()).collect();
    println!("\n| {what} | {} | ours is | bar |", names.join(" | "));
    println!("|---|{}--:|--:|", "--:|".repeat(sides.len()));
}

fn print_row(name: &str, suffix: &str, best: &[Option<f64>]) {
    let times: Vec<_> = best
        .iter()
        .map(|time| time.map_or(String::new(), |time| format!("{time:.1} ns")))
        .collect();
    let ratio = match best {
        [Some(ours), Some(official)] => format!("{:.1}× as fast", official / ours),
        _ => String::new(),
    };
    let bar = match name {
        _ if name.starts_with("disabled") => "1 ns",
        "instant" | "slice" if !suffix.ends_with("threads") => "5×",
        "packet of a data source" => "4×",
        "first event of a thread" => "1.4×",
        _ => "",
    };
    println!(
        "| {name}{suffix} | {} | {ratio} | {bar} |",
        times.join(" | ")
    );
}

fn print_spread(name: &str, who: &str, spread: Spread) {
    let Spread {
        mean,
        p50,
        p99,
        p9999,
        worst,
    } = spread;
    println!("| {name} | {who} | {mean:.0} ns | {p50} ns | {p99} ns | {p9999} ns | {worst} ns |");
}
