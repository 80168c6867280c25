//! The time and memory that programs take.

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// The first argument of a program that only calls [`run`] with the others: the kernel tells the
/// most memory of all children, so each has a parent of its own.
pub const RUN: &str = "--run";

/// The seconds of wall time and of CPU time of all threads, and the MiB of memory at the peak.
pub type Cost = [f64; 3];

/// Runs a command through this program, and returns its cost.
///
/// # Errors
///
/// Fails with the output of errors if the command fails.
pub fn of(command: &[String]) -> Result<Cost, Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let output = Command::new(this).arg(RUN).args(command).output()?;
    let text = String::from_utf8(output.stdout)?;
    let printed = text.split_whitespace().map(str::parse);
    let printed: Vec<f64> = printed.collect::<Result<_, _>>()?;
    Cost::try_from(printed).map_err(|_| String::from_utf8_lossy(&output.stderr).into())
}

/// Runs a command, and prints its cost.
///
/// # Errors
///
/// Fails if the command fails.
pub fn run(command: &[String]) -> Result<(), Box<dyn Error>> {
    let [program, arguments @ ..] = command else {
        return Err("a program is missing".into());
    };
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
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    println!("{wall} {cpu} {}", usage.max_rss() as f64 / 1024.0);
    Ok(())
}

/// Returns the least and the median of one part of costs.
#[must_use]
pub fn least_and_median(costs: &[Cost], part: usize) -> (f64, f64) {
    let mut all: Vec<f64> = costs.iter().map(|cost| cost[part]).collect();
    all.sort_by(f64::total_cmp);
    (all[0], all[all.len() / 2])
}
