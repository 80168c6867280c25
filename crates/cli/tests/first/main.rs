//! The first program of the guide, recorded again and again on a busy machine: every event of it is in every recording.
//!
//! `FIRST_EVENTS_RUNS=10000 cargo test -p ferretto-cli --test first` runs it more often than the default.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use ferretto_trace::events::{Kind, read_events};

/// First argument of this program when it is what is recorded. The number of slices follows.
const PROGRAM: &str = "the-first-program";

/// Recordings at the same time, each with a service of its own.
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
        // Nothing is to be chosen here.
        Some("--list") => ExitCode::SUCCESS,
        _ => stress(),
    }
}

/// As in the guide.
fn program(requests: u64) -> Result<(), ferretto::InitError> {
    ferretto::init()?;
    for request in 0..requests {
        let _slice = ferretto::slice!("server", "request", id = request);
        ferretto::counter!("server", "requests", request + 1);
    }
    Ok(())
}

fn stress() -> ExitCode {
    let runs = env::var("FIRST_EVENTS_RUNS");
    let runs: u64 = runs.map_or(100, |runs| runs.parse().expect("a number of runs"));
    let folder = tempfile::Builder::new()
        .prefix("ferretto-first-")
        .tempdir()
        .expect("a folder");
    std::fs::write(folder.path().join("config"), CONFIG).expect("the config is written");
    let busy = Busy::start();
    let begun = Instant::now();
    let (next, bad) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let (next, bad, folder) = (&next, &bad, folder.path());
            scope.spawn(move || {
                let trace = format!("trace-{worker}");
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= runs {
                        break;
                    }
                    // A thousand now and then.
                    let slices = if run % 10 == 9 { 1000 } else { 10 };
                    if let Err(what) = record(folder, &trace, slices) {
                        bad.fetch_add(1, Ordering::Relaxed);
                        eprintln!("run {run} of {slices} slices: {what}");
                    }
                }
            });
        }
    });
    drop(busy);
    let bad = bad.into_inner();
    println!(
        "{runs} runs in {:.1?}, {bad} of them not whole",
        begun.elapsed()
    );
    if bad == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Records the program once and looks for its events.
fn record(folder: &Path, trace: &str, slices: u64) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(FERRETTO)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .args(["record", "-c", "config", "-o", trace, "--"])
        .arg(program)
        .args([PROGRAM, &slices.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {said}", output.status));
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
    if counts == [slices; 3] && losses.is_empty() && events.problems.is_empty() {
        return Ok(());
    }
    Err(format!("{counts:?} events, {losses:?}: {said}"))
}

/// Twice as many threads that never rest as there are processors.
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
