//! The list in the documentation is the list that runs.

use std::fmt::Write as _;
use std::path::Path;

use ferretto_interop::Whose;

use crate::{CASTS, Parts, SCENARIOS};

/// The lines of the document between which the tables are.
const BEGIN: &str = "<!-- tables: begin -->\n";
const END: &str = "<!-- tables: end -->\n";

#[test]
fn the_tables_of_the_document_are_these_tests() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interop.md");
    let document = std::fs::read_to_string(&path).expect("docs/interop.md is there");
    let (before, rest) = document.split_once(BEGIN).expect("the tables begin");
    let (_, after) = rest.split_once(END).expect("the tables end");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, wanted).expect("docs/interop.md is written");
    } else {
        let advice = "run this test with UPDATE_DOCS=1 to write docs/interop.md";
        assert!(document == wanted, "{advice}");
    }
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
