//! The list in the documentation is the list that runs.

use std::fmt::Write as _;

use ferretto_interop::{Whose, document};

use crate::{CASTS, Parts, SCENARIOS};

#[test]
fn the_tables_of_the_document_are_these_tests() {
    document::check("casts and scenarios", &tables());
}

fn tables() -> String {
    let mut text = String::from("| cast | service | producer | consumer |\n|---|---|---|---|\n");
    for (number, cast) in (1..).zip(CASTS) {
        let [service, producer, consumer] = cast.map(player);
        writeln!(text, "| {number} | {service} | {producer} | {consumer} |").expect("text");
    }
    let numbers: String = (1..=CASTS.len()).map(|cast| format!(" {cast} |")).collect();
    let rules = "---|".repeat(CASTS.len());
    writeln!(text, "\n| | scenario | official consumer |{numbers}").expect("text");
    writeln!(text, "|---|---|---|{rules}").expect("text");
    for (parts, module, name) in SCENARIOS {
        let consumer = match parts {
            Parts::Sdk => "SDK",
            Parts::Endpoint => "endpoint",
        };
        let name = name.replace('_', " ");
        let ticks = " ✓ |".repeat(CASTS.len());
        writeln!(text, "| {module} | {name} | {consumer} |{ticks}").expect("text");
    }
    text
}

fn player(whose: Whose) -> &'static str {
    match whose {
        Whose::Ours => "ours",
        Whose::Official => "official",
    }
}
