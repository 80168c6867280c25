//! The time and memory of the two questions about recordings: `ferretto why` of one, and `ferretto
//! diff` of two.
//!
//! `why [MB] [ROUNDS]`: two made-up recordings of 100 MB with switches, wake-ups and system calls,
//! and five rounds unless said otherwise. `ferretto` is taken from the directory of this program;
//! `FERRETTO_BENCH_BEFORE` names another build, which is measured in alternation. The bars are
//! those of 100 MB on two cores. Upstream has no such programs.

use std::error::Error;
use std::fs::File;

use ferretto_bench::cost::{self, Cost};
use ferretto_bench::traces::Kind;

/// A question with the seconds and MiB that it may take.
const QUESTIONS: [(&str, usize, f64, Option<f64>); 2] =
    [("why", 1, 2.0, None), ("diff", 2, 3.0, Some(512.0))];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((cost::RUN, command)) = arguments
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        return cost::run(command);
    }
    let numbers = arguments.iter().map(|text| text.parse::<u64>());
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
    let megabytes = numbers.first().copied().unwrap_or(100);
    let rounds = numbers.get(1).copied().unwrap_or(5).max(1);
    let folder = tempfile::tempdir()?;
    let mut files = Vec::new();
    for seed in 0..2 {
        let path = folder.path().join(format!("{seed}.pftrace"));
        Kind::Waits.write(megabytes * 1_000_000, seed, &mut File::create(&path)?)?;
        files.push(path.display().to_string());
    }
    let this = std::env::current_exe()?.with_file_name("ferretto");
    let mut programs = vec![("now", this.display().to_string())];
    if let Ok(before) = std::env::var("FERRETTO_BENCH_BEFORE") {
        programs.push(("before", before));
    }
    println!("| question | program | wall s | CPU s | peak MiB | bar |");
    println!("|---|---|--:|--:|--:|--:|");
    for (question, traces, seconds, memory) in QUESTIONS {
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); programs.len()];
        for _ in 0..rounds {
            for ((_, program), costs) in programs.iter().zip(&mut costs) {
                let mut command = vec![program.clone(), question.to_owned()];
                command.extend_from_slice(&files[..traces]);
                costs.push(cost::of(&command)?);
            }
        }
        let memory = memory.map_or(String::new(), |most| format!(", {most} MiB"));
        for ((name, _), costs) in programs.iter().zip(&costs) {
            let [wall, cpu, peak] = [0, 1, 2].map(|part| cost::least_and_median(costs, part));
            println!(
                "| `{question}` | {name} | {:.2}, median {:.2} | {:.2}, median {:.2} | {:.0} | {seconds} s{memory} |",
                wall.0, wall.1, cpu.0, cpu.1, peak.1
            );
        }
    }
    Ok(())
}
