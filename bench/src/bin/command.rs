//! The time and memory of whole commands that ask one question about a trace of scheduling events,
//! beside upstream's trace processor.
//!
//! `command [MB|FILE] [ROUNDS]`: a made-up trace of 38 MB and five rounds unless said otherwise.
//! `FERRETTO_QUERY` names our program, `query/target/release/ferretto-query` without it;
//! `FERRETTO_BENCH_BEFORE` another build of it, and `FERRETTO_UPSTREAM` the folder of upstream's
//! programs. All run in turns; the least of each counts. The bars are ratios to upstream.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};

use ferretto_bench::cost::{self, Cost};
use ferretto_bench::traces::Kind;

/// The questions: nothing, CPU slices and states of threads, which are computed if asked for.
const STATEMENTS: [(&str, &str); 3] = [
    ("nothing", "select 1"),
    (
        "time on CPUs",
        "select ucpu, count(*), sum(dur) from sched_slice group by 1 order by 1",
    ),
    (
        "states of threads",
        "select state, count(*), sum(dur) from thread_state group by 1 order by 1",
    ),
];

/// The least ratio of speed to upstream, and the largest one of memory.
const BARS: (f64, f64) = (4.0, 0.3);

const UPSTREAM: &str = "upstream";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == cost::RUN
    {
        return cost::run(rest);
    }
    let rounds = match arguments.get(1) {
        Some(text) => text.parse::<u32>()?.max(1),
        None => 5,
    };
    let folder = tempfile::tempdir()?;
    let trace = match arguments.first() {
        Some(path) if Path::new(path).exists() => PathBuf::from(path),
        number => {
            let megabytes = number.map_or(Ok(38), |text| text.parse::<u64>())?;
            let path = folder.path().join("sched.pftrace");
            Kind::Sched.write(megabytes * 1_000_000, 0, &mut File::create(&path)?)?;
            path
        }
    };
    let trace = trace.display().to_string();
    let ours = std::env::var("FERRETTO_QUERY")
        .unwrap_or_else(|_| "query/target/release/ferretto-query".to_owned());
    // The command before the name of the trace.
    let mut programs = vec![("now", vec![ours])];
    if let Ok(before) = std::env::var("FERRETTO_BENCH_BEFORE") {
        programs.push(("before", vec![before]));
    }
    if let Some(folder) = std::env::var_os("FERRETTO_UPSTREAM") {
        let program = PathBuf::from(folder).join("trace_processor_shell");
        let program = program.display().to_string();
        programs.push((UPSTREAM, vec![program, "query".to_owned()]));
    }
    println!("| question | who | wall s | CPU s | peak MiB | CPU | memory |");
    println!("|---|---|--:|--:|--:|--:|--:|");
    for (question, sql) in STATEMENTS {
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); programs.len()];
        for _ in 0..rounds {
            for ((_, command), costs) in programs.iter().zip(&mut costs) {
                let mut command = command.clone();
                command.extend([trace.clone(), sql.to_owned()]);
                costs.push(cost::of(&command)?);
            }
        }
        let least = |costs: &[Cost], part| cost::least_and_median(costs, part).0;
        let theirs = programs.iter().position(|(name, _)| *name == UPSTREAM);
        for ((name, _), of) in programs.iter().zip(&costs) {
            let [wall, cpu, peak] = [0, 1, 2].map(|part| least(of, part));
            let ratios = match theirs.map(|index| &costs[index]) {
                Some(theirs) if *name != UPSTREAM => format!(
                    "{:.1}× as fast (bar {}×) | {:.2}× (bar {}×)",
                    least(theirs, 1) / cpu,
                    BARS.0,
                    peak / least(theirs, 2),
                    BARS.1
                ),
                _ => " | ".to_owned(),
            };
            println!("| {question} | {name} | {wall:.2} | {cpu:.2} | {peak:.0} | {ratios} |");
        }
    }
    Ok(())
}
