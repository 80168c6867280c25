//! The same recordings with upstream's own programs and with ours: `traced`, `perfetto`,
//! `trigger_perfetto` and `traced_probes` in all combinations. The results must equal those of
//! upstream's programs alone.
//!
//! `FERRETTO_UPSTREAM` is the folder of upstream's programs; without it these tests are skipped.
//! Ours are the `ferretto` built by `cargo build`.

mod mix;
mod outcome;
mod recordings;

use ferretto_interop::{Programs, Side, document};
use mix::{Folders, Mix, Run};
use outcome::Outcome;

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

/// The combinations; the first is the reference.
const MIXES: [Mix; 4] = [
    Mix::of(Side::Official, Side::Official),
    Mix::of(Side::Ours, Side::Official),
    Mix::of(Side::Official, Side::Ours),
    Mix::of(Side::Ours, Side::Ours),
];

/// Runs a recording in every mix and compares the results.
fn compare(name: &str, recording: impl Fn(&mut Run)) {
    let Some(folders) = Folders::from_environment() else {
        println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs");
        return;
    };
    let outcomes = MIXES.map(|mix| {
        let mut run = Run::start(&folders, mix);
        recording(&mut run);
        Outcome::of(&run)
    });
    for (mix, outcome) in MIXES.iter().zip(&outcomes) {
        println!("{name} | {mix} | {outcome}");
    }
    for (mix, outcome) in MIXES.iter().zip(&outcomes).skip(1) {
        outcome.assert_same(&outcomes[0], &format!("{name}, {mix}"));
    }
}

macro_rules! recordings {
    ($($name:ident;)*) => { $(
        #[test]
        fn $name() {
            compare(stringify!($name), recordings::$name);
        }
    )*

        #[test]
        fn the_document_lists_these_tests() {
            let names = [$(stringify!($name)),*].map(|name| name.replace('_', " "));
            document::check("recordings", &format!("{}.\n", names.join(" · ")));
        }
    };
}

recordings! {
    plain;
    long_in_the_clients_file;
    long_in_a_file_of_the_service;
    ring;
    start_trigger;
    stop_trigger;
    triggers_in_a_config;
    snapshots;
    cloned;
    cloned_from_a_file;
    detached;
    deflated;
    zstd;
    filtered;
    background;
    probes;
    refused;
}
