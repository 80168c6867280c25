//! The tests of the official Rust crates, linked with this library instead of their own.
//!
//! They take a minute and need a network, so they run only if `OFFICIAL_SUITES` is set.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::library::{Scratch, folder, published, supports};

/// Matching versions of the crates: the declarations of the interface, the wrapper, and the crates
/// that build on it.
const GENERATIONS: [[(&str, &str); 4]; 2] = [
    [
        ("perfetto-sdk-sys", "1.3.0"),
        ("perfetto-sdk", "1.1.1"),
        ("perfetto-sdk-derive", "1.0.0"),
        ("tracing-perfetto-sdk", "1.0.0"),
    ],
    [
        ("perfetto-sdk-sys", "1.4.0"),
        ("perfetto-sdk", "1.2.1"),
        ("perfetto-sdk-derive", "1.0.0"),
        ("tracing-perfetto-sdk", "1.0.0"),
    ],
];

const ROUNDS: u32 = 5;

#[test]
fn sdk_042_the_official_crates_pass_their_tests() {
    ferretto_testing::own_process!();
    if env::var_os("OFFICIAL_SUITES").is_none() {
        println!("skipped: set OFFICIAL_SUITES to run the official crates' own tests");
        return;
    }
    for generation in GENERATIONS {
        if !supports(generation[0].1) {
            continue;
        }
        let scratch = Scratch::new(&format!("suites-{}", generation[0].1));
        let sources: Option<Vec<_>> = generation
            .into_iter()
            .map(|(name, version)| Some((name, published(name, version)?)))
            .collect();
        let Some(sources) = sources else { return };
        for (name, source) in &sources {
            copy(source, &scratch.join(name));
        }
        let members = generation.map(|(name, _)| format!("{name:?}")).join(", ");
        let patches = generation.map(|(name, _)| format!("{name} = {{ path = {name:?} }}\n"));
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n[patch.crates-io]\n{}",
            patches.concat()
        );
        fs::write(scratch.join("Cargo.toml"), manifest).unwrap();
        // Some of the tests have races, so they run several times.
        for round in 0..ROUNDS {
            let output = scratch
                .command(env!("CARGO"))
                .args(["test", "--workspace", "--no-default-features", "--quiet"])
                .current_dir(&scratch.0)
                .env("PERFETTO_SYS_LIB_DIR", &scratch.0)
                .env("CARGO_TARGET_DIR", target())
                // Not our code to check.
                .env_remove("RUSTC_WORKSPACE_WRAPPER")
                .output()
                .unwrap();
            let outcome = String::from_utf8_lossy(&output.stdout).into_owned();
            let complained = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{generation:?}, round {round}: {outcome}{complained}"
            );
            let passed: u32 = outcome
                .lines()
                .filter_map(|line| {
                    line.strip_prefix("test result: ok. ")?
                        .split(' ')
                        .next()?
                        .parse::<u32>()
                        .ok()
                })
                .sum();
            assert!(passed >= 48, "{outcome}");
            println!(
                "{} {}: {passed} tests passed",
                generation[1].0, generation[1].1
            );
        }
    }
}

/// Returns the target folder of the crates, so that they are compiled once.
fn target() -> PathBuf {
    folder().join("official-suites")
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .arg("-r")
        .arg(from)
        .arg(to)
        .status()
        .unwrap();
    assert!(status.success(), "copying {}", from.display());
}
