//! The first program of the guide, recorded repeatedly on a busy machine. Every recording has all
//! its events.
//!
//! `FIRST_EVENTS_RUNS=10000 cargo test -p ferretto-cli --test first` runs it more often than the
//! default.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use ferretto_trace::events::{Kind, read_events};

/// The first argument of this program as the recorded program, followed by the number of slices.
const PROGRAM: &str = "the-first-program";

/// The first argument for starting the recorded program several times, followed by the number of
/// runs and of slices.
const SHELL: &str = "several-first-programs";

/// The numbers of runs in a recording, and of slices in each run.
const RECORDINGS: [(u64, u64); 4] = [(1, 10), (40, 10), (1, 1000), (10, 1000)];

/// The number of simultaneous recordings, each with its own service.
const AT_ONCE: u32 = 4;

const FERRETTO: &str = env!("CARGO_BIN_EXE_ferretto");

const CONFIG: &str = r#"
buffers { size_kb: 4096 }
data_sources { config { name: "track_event" } }
"#;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().collect();
    match args.get(1).map(String::as_str) {
        Some(PROGRAM) => {
            let slices = args.get(2).and_then(|slices| slices.parse().ok());
            program(slices.unwrap_or(10)).expect("tracing starts");
            ExitCode::SUCCESS
        }
        Some(SHELL) => shell(&args[2], &args[3]),
        // There are no tests to select.
        Some("--list") => ExitCode::SUCCESS,
        _ => stress(),
    }
}

fn shell(runs: &str, slices: &str) -> ExitCode {
    let program = env::current_exe().expect("the program has a name");
    for _ in 0..runs.parse().expect("a number of runs") {
        let status = Command::new(&program).args([PROGRAM, slices]).status();
        assert!(status.expect("the program starts").success());
    }
    ExitCode::SUCCESS
}

/// The program of the guide.
fn program(requests: u64) -> Result<(), ferretto::InitError> {
    ferretto::init()?;
    for request in 0..requests {
        let _slice = ferretto::slice!("server", "request", id = request);
        ferretto::counter!("server", "requests", request + 1);
    }
    Ok(())
}

fn stress() -> ExitCode {
    let wanted = env::var("FIRST_EVENTS_RUNS");
    let wanted: u64 = wanted.map_or(200, |runs| runs.parse().expect("a number of runs"));
    let folder = tempfile::Builder::new()
        .prefix("ferretto-first-")
        .tempdir()
        .expect("a folder");
    std::fs::write(folder.path().join("config"), CONFIG).expect("the config is written");
    let busy = Busy::start();
    let begun = Instant::now();
    let (recordings, runs, bad) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let record_until_done = |trace: &str| {
        while runs.load(Ordering::Relaxed) < wanted {
            let number = recordings.fetch_add(1, Ordering::Relaxed);
            let (count, slices) = RECORDINGS[number as usize % RECORDINGS.len()];
            if let Err(what) = record(folder.path(), trace, count, slices) {
                bad.fetch_add(1, Ordering::Relaxed);
                eprintln!("recording {number}, {count} runs of {slices} slices: {what}");
            }
            runs.fetch_add(count, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let record = &record_until_done;
            scope.spawn(move || record(&format!("trace-{worker}")));
        }
    });
    drop(busy);
    let (recordings, runs) = (recordings.into_inner(), runs.into_inner());
    let (bad, time) = (bad.into_inner(), begun.elapsed());
    println!("{runs} runs in {recordings} recordings, {time:.1?}: {bad} recordings are incomplete");
    if bad == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Records a number of runs of the program, and checks its events.
fn record(folder: &Path, trace: &str, runs: u64, slices: u64) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let (count, number) = (runs.to_string(), slices.to_string());
    let command = match runs {
        1 => vec![PROGRAM, &number],
        _ => vec![SHELL, &count, &number],
    };
    let output = Command::new(FERRETTO)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .args(["record", "-c", "config", "-o", trace, "--"])
        .arg(program)
        .args(command)
        .output()
        .map_err(|error| error.to_string())?;
    let outcome = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {outcome}", output.status));
    }
    let trace = std::fs::read(folder.join(trace)).map_err(|error| error.to_string())?;
    let summary = ferretto_trace::summarize(&*trace).map_err(|error| error.to_string())?;
    let events = read_events(&*trace).map_err(|error| error.to_string())?;
    let count = |kind| {
        let of_kind = events.events.iter().filter(|event| event.kind == kind);
        of_kind.count() as u64
    };
    let counts = [Kind::Begin, Kind::End, Kind::Counter].map(count);
    let losses = &summary.losses;
    if counts == [runs * slices; 3] && losses.is_empty() && events.problems.is_empty() {
        return Ok(());
    }
    Err(format!("{counts:?} events, {losses:?}: {outcome}"))
}

/// Busy threads, twice as many as there are processors.
struct Busy {
    threads: Vec<thread::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Busy {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = 2 * thread::available_parallelism().map_or(1, usize::from);
        let spin = |stop: Arc<AtomicBool>| while !stop.load(Ordering::Relaxed) {};
        let threads = (0..count)
            .map(|_| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || spin(stop))
            })
            .collect();
        Self { threads, stop }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
