//! The time and memory that it takes to read large traces into tables, beside upstream's trace
//! processor.
//!
//! `import [KIND|FILE] [MB] [ROUNDS]`: all kinds of made-up traces, 100 MB each, and three rounds
//! unless said otherwise. `FERRETTO_UPSTREAM` names the folder of upstream's programs. Each import
//! is a process of its own, in turns, and the least of each counts: wall time, processor time of
//! all its threads, and the most memory that it had at a time.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use ferretto_bench::traces::Kind;
use ferretto_tables::{Continue, Options, Trace};
use nix::sys::resource::{UsageWho, getrusage};

/// Imports the file named behind it, with as many threads as are named between them.
const IMPORT: &str = "--import";
/// Runs the program named behind it, and tells what it took.
const RUN: &str = "--run";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(IMPORT) => import(&arguments[1], Path::new(&arguments[2])),
        Some(RUN) => run(&arguments[1], &arguments[2..]),
        _ => compare(&arguments),
    }
}

fn import(threads: &str, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    options.threads = match threads.parse()? {
        0 => options.threads,
        threads => threads,
    };
    let trace = Trace::open(path, &options, |_| Continue::Yes)?;
    eprintln!("{} MB of tables", trace.memory() / 1_000_000);
    // A program that ends need not give its memory back; upstream's does not either.
    std::mem::forget(trace);
    Ok(())
}

fn run(program: &str, arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let wall = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("{program} ended with {status}").into());
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    println!("{wall} {cpu} {}", usage.max_rss() as f64 / 1024.0);
    Ok(())
}

/// Seconds of wall and processor time, and MiB of memory.
type Cost = [f64; 3];

struct Way {
    name: &'static str,
    command: Vec<String>,
    least: Cost,
}

fn compare(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (mut numbers, mut names) = (Vec::new(), Vec::new());
    for argument in arguments {
        match argument.parse::<u64>() {
            Ok(number) => numbers.push(number),
            Err(_) => names.push(argument.as_str()),
        }
    }
    let megabytes = numbers.first().copied().unwrap_or(100);
    let rounds = numbers.get(1).copied().unwrap_or(3);
    println!("| trace | who | MB/s | MB per CPU second | peak MiB | speed | memory |");
    println!("|---|---|--:|--:|--:|--:|--:|");
    if let Some(path) = names.first().filter(|name| Path::new(name).exists()) {
        return measure(path, Path::new(path), rounds);
    }
    let folder = tempfile::tempdir()?;
    for kind in Kind::ALL {
        if names.is_empty() || names.contains(&kind.name()) {
            let path = folder.path().join(kind.name());
            kind.write(megabytes * 1_000_000, &mut File::create(&path)?)?;
            measure(kind.name(), &path, rounds)?;
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn measure(name: &str, path: &Path, rounds: u64) -> Result<(), Box<dyn Error>> {
    let us = std::env::current_exe()?.display().to_string();
    let file = path.display().to_string();
    let ours = |name, threads: &str| Way {
        name,
        command: [us.as_str(), IMPORT, threads, &file]
            .map(str::to_owned)
            .to_vec(),
        least: [f64::INFINITY; 3],
    };
    let mut ways = vec![ours("ours, one thread", "1"), ours("ours, all cores", "0")];
    if let Some(folder) = std::env::var_os("FERRETTO_UPSTREAM") {
        let program = PathBuf::from(folder).join("trace_processor_shell");
        let program = program.display().to_string();
        ways.push(Way {
            name: "upstream",
            command: [program.as_str(), "query", &file, "select 1"]
                .map(str::to_owned)
                .to_vec(),
            least: [f64::INFINITY; 3],
        });
    }
    for _ in 0..rounds {
        for way in &mut ways {
            let output = Command::new(&us).arg(RUN).args(&way.command).output()?;
            let text = String::from_utf8(output.stdout)?;
            let told = text.split_whitespace().map(str::parse);
            let told: Vec<f64> = told.collect::<Result<_, _>>()?;
            if told.len() != way.least.len() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
            for (least, told) in way.least.iter_mut().zip(told) {
                *least = least.min(told);
            }
        }
    }
    let megabytes = path.metadata()?.len() as f64 / 1e6;
    let theirs = ways
        .iter()
        .find(|way| way.name == "upstream")
        .map(|way| way.least);
    for way in &ways {
        let [wall, cpu, memory] = way.least;
        let ratio = |part: usize| match theirs {
            Some(theirs) if part == 0 => format!("{:.2}×", theirs[0] / wall),
            Some(theirs) => format!("{:.2}×", memory / theirs[2]),
            None => String::new(),
        };
        let (speed, rate) = (megabytes / wall, megabytes / cpu);
        println!(
            "| {name} | {} | {speed:.1} | {rate:.1} | {memory:.0} | {} | {} |",
            way.name,
            ratio(0),
            ratio(2)
        );
    }
    Ok(())
}
