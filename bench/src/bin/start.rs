//! The time of a cold start: `ferretto --version`, and a query over a small trace, with the
//! programs not in the page cache.
//!
//! `start [ROUNDS]`: five rounds by default, the shortest of which counts. `ferretto` and
//! `ferretto-query` are taken from the directory of this program; without the latter the row of the
//! query is omitted. Only the pages of the two programs are dropped, so neither permissions nor a
//! calm machine are needed; the libraries of the system stay.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_bench::traces::Kind;
use rustix::fs::{Advice, fadvise};

/// The bar of each row.
const BAR: Duration = Duration::from_millis(300);

/// The size of the trace in bytes.
const TRACE: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map(|text| text.parse::<u32>());
    let rounds = rounds.transpose()?.unwrap_or(5).max(1);
    let this = std::env::current_exe()?;
    let beside = |name: &str| this.with_file_name(name);
    let programs: Vec<PathBuf> = ["ferretto", "ferretto-query"]
        .map(beside)
        .into_iter()
        .filter(|path| path.exists())
        .collect();
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("small.pftrace");
    Kind::Sched.write(TRACE, 0, &mut File::create(&trace)?)?;

    println!("| command | not in the page cache | in the page cache | bar |");
    println!("|---|--:|--:|--:|");
    let row = |name: &str, command: &dyn Fn() -> Command| -> Result<(), Box<dyn Error>> {
        let (mut cold, mut warm) = (Duration::MAX, Duration::MAX);
        for _ in 0..rounds {
            programs
                .iter()
                .try_for_each(|program| drop_pages(program))?;
            cold = cold.min(time(command())?);
            warm = warm.min(time(command())?);
        }
        let [cold, warm, bar] = [cold, warm, BAR].map(|time| time.as_secs_f64());
        println!("| {name} | {cold:.3} s | {warm:.3} s | {bar} s |");
        Ok(())
    };
    row("`ferretto --version`", &|| {
        let mut command = Command::new(beside("ferretto"));
        command.arg("--version");
        command
    })?;
    if beside("ferretto-query").exists() {
        row("`ferretto query TRACE \"select 1\"`", &|| {
            let mut command = Command::new(beside("ferretto"));
            command.arg("query").arg(&trace).arg("select 1");
            command
        })?;
    }
    Ok(())
}

/// Drops the pages of a file from the page cache.
fn drop_pages(path: &Path) -> Result<(), Box<dyn Error>> {
    let failed = |error| format!("cannot drop the pages of {}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    // Pages that are not written yet stay.
    file.sync_data().map_err(failed)?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    Ok(())
}

/// Runs a command, and returns the time until its end.
fn time(mut command: Command) -> Result<Duration, Box<dyn Error>> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{command:?} failed: {status}").into());
    }
    Ok(begin.elapsed())
}
