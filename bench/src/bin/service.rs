//! Measures whole services under the same load, in turns, and prints the shortest and the middle of
//! what came out.
//!
//! `service [NAME] [ROUNDS] [MB]`: only scenarios whose name contains NAME; 5 rounds and 1000 MB
//! unless said otherwise.

use std::process::ExitCode;

use ferretto_bench::service::{Measured, SCENARIOS, SERVE, StartError, Who, serve};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(SERVE) {
        return finish(serve());
    }
    let mut filter = String::new();
    let mut numbers = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.parse::<u64>() {
            Ok(number) => numbers.push(number),
            Err(_) => filter = argument,
        }
    }
    let rounds = numbers.first().copied().unwrap_or(5).max(1);
    let megabytes = numbers.get(1).copied().unwrap_or(1000).max(1);
    finish(run(&filter, rounds, megabytes))
}

fn finish<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(filter: &str, rounds: u64, megabytes: u64) -> Result<(), StartError> {
    println!("| scenario | what | ours, least (middle) | upstream | ratio |");
    println!("|---|---|--:|--:|--:|");
    for scenario in SCENARIOS {
        if !scenario.name.contains(filter) {
            continue;
        }
        let mut results = vec![Vec::new(); Who::all().len()];
        for _ in 0..rounds {
            for (results, &who) in results.iter_mut().zip(Who::all()) {
                results.push((scenario.run)(who, megabytes)?);
            }
        }
        print(scenario.name, &results);
    }
    Ok(())
}

/// Name, unit and value of each thing measured.
fn values(measured: Measured) -> Vec<(&'static str, &'static str, f64)> {
    match measured {
        Measured::PerGigabyte { cpu, wall, peak } => vec![
            ("processor per GB", "s", cpu.as_secs_f64()),
            ("time per GB", "s", wall.as_secs_f64()),
            ("peak memory", "MiB", peak as f64 / 1_048_576.0),
        ],
        Measured::Memory(bytes) => vec![("memory", "KiB", bytes as f64 / 1024.0)],
    }
}

fn print(name: &str, results: &[Vec<Measured>]) {
    let first = values(results[0][0]);
    for (index, (what, unit, _)) in first.iter().enumerate() {
        let sorted: Vec<Vec<f64>> = results
            .iter()
            .map(|runs| {
                let mut all: Vec<f64> = runs.iter().map(|run| values(*run)[index].2).collect();
                all.sort_by(f64::total_cmp);
                all
            })
            .collect();
        let shown = |all: &[f64]| format!("{:.3} ({:.3}) {unit}", all[0], all[all.len() / 2]);
        let (theirs, ratio) = match sorted.get(1) {
            Some(theirs) => (shown(theirs), format!("{:.2}×", sorted[0][0] / theirs[0])),
            None => (String::new(), String::new()),
        };
        println!(
            "| {name} | {what} | {} | {theirs} | {ratio} |",
            shown(&sorted[0])
        );
    }
}
