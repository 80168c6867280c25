//! Measures whole services under the same load, in turns, and prints the minimum, and the median in
//! brackets.
//!
//! `service [NAME] [ROUNDS] [MB]`: only scenarios whose name contains NAME; 5 rounds and 1000 MB by
//! default.

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
    let all = Who::all();
    let mut titles = String::from("| scenario | what |");
    let mut rule = String::from("|---|---|");
    for (index, who) in all.iter().enumerate() {
        titles += &format!(" {} |", who.name());
        rule += "--:|";
        if index > 0 {
            titles += &format!(" ours / {} |", who.name());
            rule += "--:|";
        }
    }
    println!("{titles}\n{rule}");
    for scenario in SCENARIOS {
        if !scenario.name.contains(filter) {
            continue;
        }
        let mut results = vec![Vec::new(); all.len()];
        for _ in 0..rounds {
            for (results, &who) in results.iter_mut().zip(&all) {
                results.push((scenario.run)(who, megabytes)?);
            }
        }
        print(scenario.name, &results);
    }
    Ok(())
}

/// Returns the name, unit and value of each result.
fn values(measured: Measured) -> Vec<(&'static str, &'static str, f64)> {
    match measured {
        Measured::PerGigabyte { cpu, wall, peak } => vec![
            ("processor per GB", "s", cpu.as_secs_f64()),
            ("time per GB", "s", wall.as_secs_f64()),
            ("peak memory", "MiB", peak as f64 / 1_048_576.0),
        ],
        Measured::PerMessage { cpu, wall } => vec![
            ("processor per packet", "ns", cpu.as_secs_f64() * 1e9),
            ("time per packet", "ns", wall.as_secs_f64() * 1e9),
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
        let mut row = format!("| {name} | {what} |");
        for (index, all) in sorted.iter().enumerate() {
            let middle = |all: &[f64]| all[all.len() / 2];
            row += &format!(" {:.3} ({:.3}) {unit} |", all[0], middle(all));
            if index > 0 {
                let ours = &sorted[0];
                let (least, middle) = (ours[0] / all[0], middle(ours) / middle(all));
                row += &format!(" {least:.2} ({middle:.2}) |");
            }
        }
        println!("{row}");
    }
}
