//! The CPU time of a ring that nobody reads (`ferretto record --ring`), at several rates of context
//! switches.
//!
//! `recorder [SECONDS] [ROUNDS]`: 12 seconds and three rounds by default. A recording of two
//! seconds and one of SECONDS run for each rate; the difference is what each further second takes,
//! in all threads and processes of the recorder. The round with the least of it counts. `ferretto`
//! is taken from the directory of this program: `cargo build --profile dist -p ferretto-cli`
//! creates it. `FERRETTO_BENCH_BEFORE` names another build of `ferretto`, which is measured in
//! alternation.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

/// The environment variable with the path of another build.
const BEFORE: &str = "FERRETTO_BENCH_BEFORE";

/// Context switches per second, and the largest share of one CPU in per cent.
const RATES: [(u32, f64); 3] = [(1_000, 0.2), (10_000, 0.5), (100_000, 2.0)];

/// The length of the short recording in seconds.
const SHORT: u64 = 2;

/// The time between two bursts of context switches.
const BURST: Duration = Duration::from_millis(4);

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let seconds = numbers.next().transpose()?.unwrap_or(12).max(SHORT + 1);
    let rounds = numbers.next().transpose()?.unwrap_or(3).max(1);
    let ours = std::env::current_exe()?.with_file_name("ferretto");
    let before = std::env::var_os(BEFORE).map(PathBuf::from);
    let programs: Vec<PathBuf> = [ours].into_iter().chain(before).collect();
    let folder = tempfile::tempdir()?;
    println!("| switches a second | of the machine | per cent of a CPU | bar | before |");
    println!("|--:|--:|--:|--:|--:|");
    for (rate, bar) in RATES {
        let mut least = vec![f64::MAX; programs.len()];
        let mut switches = f64::MAX;
        for _ in 0..rounds {
            for (least, program) in least.iter_mut().zip(&programs) {
                let load = Load::start(rate);
                let short = record(program, SHORT, folder.path())?;
                let (count, begin) = (context_switches()?, Instant::now());
                let long = record(program, seconds, folder.path())?;
                let elapsed = begin.elapsed().as_secs_f64();
                switches = switches.min((context_switches()? - count) as f64 / elapsed);
                load.stop();
                let further = (seconds - SHORT) as f64;
                *least = least.min((long - short) * 100.0 / further);
            }
        }
        let before = least.get(1).map(|it| format!("{it:.2}"));
        println!(
            "| {rate} | {switches:.0} | {:.2} | {bar} | {} |",
            least[0],
            before.unwrap_or_default()
        );
    }
    Ok(())
}

/// Records into a ring. Returns the CPU time of the recorder in seconds.
fn record(program: &Path, seconds: u64, folder: &Path) -> Result<f64, Box<dyn Error>> {
    let before = children()?;
    let status = Command::new(program)
        .args(["record", "--quiet", "--ring", "64m", "--duration"])
        .arg(format!("{seconds}s"))
        .arg("--output")
        .arg(folder.join("ring.pftrace"))
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !status.success() {
        return Err(format!("{} record failed: {status}", program.display()).into());
    }
    Ok(children()? - before)
}

/// Returns the CPU time of ended children in seconds.
fn children() -> nix::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let times = [usage.user_time(), usage.system_time()];
    Ok(times
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum())
}

/// Returns the number of context switches of the machine since its start.
fn context_switches() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("ctxt "));
    Ok(line.ok_or("/proc/stat has no context switches")?.parse()?)
}

/// Two threads that wake each other.
struct Load {
    stops: Arc<AtomicBool>,
    threads: [JoinHandle<()>; 2],
}

impl Load {
    fn start(rate: u32) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let (to, from) = sync_channel::<()>(0);
        let (back, answers) = sync_channel::<()>(0);
        let echo = thread::spawn(move || while from.recv().is_ok() && back.send(()).is_ok() {});
        let stopped = Arc::clone(&stops);
        let caller = thread::spawn(move || {
            let begin = Instant::now();
            let mut sent = 0.0;
            while !stopped.load(Ordering::Relaxed) {
                // Both threads go to sleep for each message and its answer.
                while sent < begin.elapsed().as_secs_f64() * f64::from(rate) / 2.0 {
                    if to.send(()).is_err() || answers.recv().is_err() {
                        return;
                    }
                    sent += 1.0;
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                }
                thread::sleep(BURST);
            }
        });
        Self {
            stops,
            threads: [caller, echo],
        }
    }

    fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
