//! The table of results for the document.

use std::fmt::Write as _;

use crate::cast::{CASTS, players};
use crate::run::Outcome;
use crate::scenarios::{Exception, Parts, SCENARIOS};

/// Returns the tables of casts and results, and the reasons for exceptions.
///
/// `outcomes` are sorted by cast.
pub(crate) fn of(outcomes: &[Outcome]) -> String {
    let mut text = String::from("| cast | service | producer | consumer |\n|---|---|---|---|\n");
    for (number, cast) in (1..).zip(CASTS) {
        let [service, producer, consumer] = players(*cast);
        writeln!(text, "| {number} | {service} | {producer} | {consumer} |").expect("text");
    }
    let numbers: String = (1..=CASTS.len()).map(|cast| format!(" {cast} |")).collect();
    let rules = "---|".repeat(CASTS.len());
    writeln!(text, "\n| | scenario | official consumer |{numbers}").expect("text");
    writeln!(text, "|---|---|---|{rules}").expect("text");
    for (row, scenario) in SCENARIOS.iter().enumerate() {
        let consumer = match scenario.parts {
            Parts::Sdk => "SDK",
            Parts::Endpoint => "endpoint",
        };
        let name = scenario.name.replace('_', " ");
        let topic = scenario.topic.replace('_', " ");
        write!(text, "| {topic} | {name} | {consumer} |").expect("text");
        for (column, cast) in CASTS.iter().enumerate() {
            let mark = match outcomes[column * SCENARIOS.len() + row] {
                Outcome::Passed => "✓",
                Outcome::Failed => "✗",
                Outcome::NotPlayed => "?",
                Outcome::Exception => (scenario.exception)(*cast).map_or("?", Exception::mark),
            };
            write!(text, " {mark} |").expect("text");
        }
        text.push('\n');
    }
    text.push('\n');
    for exception in Exception::ALL {
        writeln!(text, "- {}: {}", exception.mark(), exception.reason()).expect("text");
    }
    text
}
