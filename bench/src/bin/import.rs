//! The time and memory that it takes to read large traces into tables, beside upstream's trace
//! processor.
//!
//! `import [KIND|FILE] [MB] [ROUNDS]`: all kinds of made-up traces, 100 MB each, and three rounds
//! unless said otherwise. `FERRETTO_UPSTREAM` names the folder of upstream's programs. Each import
//! is a process of its own, in turns; the least and the median of each count: wall time, processor
//! time of all its threads, and the most memory that it had at a time. In a row of its own, all
//! columns of all tables are asked for, also those that are computed then, and read once.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};

use ferretto_bench::cost::{self, Cost};
use ferretto_bench::traces::Kind;
use ferretto_tables::{ColumnView, Continue, Options, Trace, Values};

/// Imports the file named behind it, with as many threads as are named between them.
const IMPORT: &str = "--import";
/// Does the same, asks for all columns of all tables, and reads them.
const IMPORT_ALL: &str = "--import-all";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(way @ (IMPORT | IMPORT_ALL)) => {
            import(&arguments[1], Path::new(&arguments[2]), way == IMPORT_ALL)
        }
        Some(cost::RUN) => cost::run(&arguments[1..]),
        _ => compare(&arguments),
    }
}

fn import(threads: &str, path: &Path, asks_all: bool) -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    options.threads = match threads.parse()? {
        0 => options.threads,
        threads => threads,
    };
    let trace = Trace::open(path, &options, |_| Continue::Yes)?;
    if asks_all {
        for table in trace.tables().all() {
            for column in (0..table.spec().columns.len()).filter_map(|index| table.column(index)) {
                read(&column);
            }
        }
    }
    eprintln!("{} MB of tables", trace.memory() / 1_000_000);
    // A program that ends need not give its memory back; upstream's does not either.
    std::mem::forget(trace);
    Ok(())
}

/// Reads all values of a column that is not a slice, as whoever copies the table would.
fn read(column: &ColumnView<'_>) {
    /// Rows that are read at a time.
    const ROWS: usize = 8192;
    if let Values::Numbers(numbers) = column.values {
        let mut read = Vec::with_capacity(ROWS);
        for row in (0..numbers.len()).step_by(ROWS) {
            read.clear();
            numbers.read(row..row + ROWS, &mut read);
            std::hint::black_box(&read);
        }
    }
    std::hint::black_box(column);
}

/// The name of upstream's rows.
const UPSTREAM: &str = "upstream";

struct Way {
    name: &'static str,
    command: Vec<String>,
    costs: Vec<Cost>,
}

impl Way {
    fn cost(&self, part: usize) -> (f64, f64) {
        cost::least_and_median(&self.costs, part)
    }
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
    println!("| trace | who | wall s | CPU s | peak MiB | wall | CPU | memory |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    if let Some(path) = names.first().filter(|name| Path::new(name).exists()) {
        return measure(path, Path::new(path), rounds);
    }
    let folder = tempfile::tempdir()?;
    for kind in Kind::ALL {
        if names.is_empty() || names.contains(&kind.name()) {
            let path = folder.path().join(kind.name());
            kind.write(megabytes * 1_000_000, 0, &mut File::create(&path)?)?;
            measure(kind.name(), &path, rounds)?;
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn measure(name: &str, path: &Path, rounds: u64) -> Result<(), Box<dyn Error>> {
    let us = std::env::current_exe()?.display().to_string();
    let file = path.display().to_string();
    let way = |name, command: [&str; 4]| Way {
        name,
        command: command.map(str::to_owned).to_vec(),
        costs: Vec::new(),
    };
    let mut ways = vec![
        way("ours, one thread", [&us, IMPORT, "1", &file]),
        way("ours, all cores", [&us, IMPORT, "0", &file]),
        way("ours, all asked for", [&us, IMPORT_ALL, "1", &file]),
    ];
    if let Some(folder) = std::env::var_os("FERRETTO_UPSTREAM") {
        let program = PathBuf::from(folder).join("trace_processor_shell");
        let program = program.display().to_string();
        ways.push(way(UPSTREAM, [&program, "query", &file, "select 1"]));
    }
    for _ in 0..rounds {
        for way in &mut ways {
            way.costs.push(cost::of(&way.command)?);
        }
    }
    let theirs = ways.iter().find(|way| way.name == UPSTREAM);
    for way in &ways {
        let costs = [0, 1, 2].map(|part| {
            let (least, median) = way.cost(part);
            match part {
                2 => format!("{least:.0}"),
                _ => format!("{least:.2}, median {median:.2}"),
            }
        });
        let ratios = [0, 1, 2].map(|part| match theirs {
            None => String::new(),
            Some(theirs) => {
                let ratio = |theirs: f64, ours: f64| match part {
                    2 => ours / theirs,
                    _ => theirs / ours,
                };
                let ((least, median), ours) = (theirs.cost(part), way.cost(part));
                let (least, median) = (ratio(least, ours.0), ratio(median, ours.1));
                match part {
                    2 => format!("{least:.2}×"),
                    _ => format!("{least:.2}×, median {median:.2}×"),
                }
            }
        });
        let (costs, ratios) = (costs.join(" | "), ratios.join(" | "));
        println!("| {name} | {} | {costs} | {ratios} |", way.name);
    }
    Ok(())
}
