//! Our SDK with the time stamp counter as the clock of all events. The clock of a process cannot be
//! changed, so a separate process measures it.

use ferretto::track_event::EventClock;

use crate::measure::shortest;
use crate::ours::Ours;
use crate::span_work;
use crate::{Side, another};

/// The argument that makes this program measure only this.
pub(crate) const ARGUMENT: &str = "tsc-clock";

/// The suffix of the names of our rows with this clock.
pub(crate) const SUFFIX: &str = ", TSC clock";

/// The measured events.
const EVENTS: [&str; 2] = ["instant", "slice"];

/// Times in nanoseconds, by row.
pub(crate) struct Figures(Vec<(String, Vec<f64>)>);

impl Figures {
    /// Measures in a separate process, in `rounds` rounds. The result is empty if the machine has
    /// no reliable counter.
    pub(crate) fn measure(rounds: u32) -> Self {
        let output = another::output(&[ARGUMENT, &rounds.to_string()]);
        let row = |line: &str| {
            let mut words = line.split('\t');
            let name = words.next()?.to_owned();
            Some((name, words.filter_map(|time| time.parse().ok()).collect()))
        };
        Self(output.lines().filter_map(row).collect())
    }

    /// Returns the times of a row.
    pub(crate) fn get(&self, name: &str) -> Option<&[f64]> {
        let (_, times) = self.0.iter().find(|(other, _)| other == name)?;
        Some(times)
    }
}

/// Measures in the separate process, and prints a line for each row.
pub(crate) fn print(rounds: u32) {
    let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Ours::start(EventClock::Tsc))];
    if EventClock::current() != EventClock::Tsc {
        return;
    }
    for name in EVENTS {
        let times: Vec<_> = shortest(&mut sides, name, 1, rounds);
        print_row(name, times.into_iter().flatten());
    }
    for (name, work) in span_work::ROWS {
        print_row(
            name,
            span_work::shortest(&mut sides, work, rounds).into_iter(),
        );
    }
}

fn print_row(name: &str, times: impl Iterator<Item = f64>) {
    let times: Vec<_> = times.map(|time| time.to_string()).collect();
    println!("{name}\t{}", times.join("\t"));
}
