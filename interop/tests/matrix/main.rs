//! Every scenario in every cast: our and the official service and consumer, and producers with our
//! SDK, the official SDK, and the official SDK on our library.
//!
//! The table in the documentation contains the results. A complete run compares the two; with
//! `UPDATE_DOCS=1` it writes the table.

mod cast;
mod run;
mod scenarios;
mod table;

use std::process::ExitCode;

use ferretto_interop::{Programs, document};

use cast::CASTS;
use run::{Options, Outcome};
use scenarios::{Exception, SCENARIOS};

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

/// The part of the document with the results.
const TABLE: &str = "casts and scenarios";

fn main() -> ExitCode {
    let options = Options::from_arguments();
    let cells: Vec<run::Cell> = CASTS
        .iter()
        .flat_map(|cast| SCENARIOS.iter().map(move |scenario| (*cast, scenario)))
        .map(|(cast, scenario)| run::Cell {
            name: format!("{}::{}", cast::name(cast), scenario.name),
            exception: (scenario.exception)(cast).map(Exception::reason),
            play: Box::new(move || (scenario.play)(cast)),
        })
        .collect();
    if options.is_list {
        cells
            .iter()
            .for_each(|cell| println!("{}: test", cell.name));
        return ExitCode::SUCCESS;
    }
    let outcomes = run::all(&cells, &options);
    let is_whole = outcomes
        .iter()
        .all(|outcome| *outcome != Outcome::NotPlayed);
    if is_whole {
        document::check(TABLE, &table::of(&outcomes));
    }
    if outcomes.contains(&Outcome::Failed) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
