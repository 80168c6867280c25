//! Runs `ferretto-fleet`, the program for many traces.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "ferretto-fleet";

/// Replaces this process by the program for many traces, with the same arguments. Returns only if
/// that fails.
pub(super) fn run(reason: &str) -> String {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.join(PROGRAM)))
        .filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .exec();
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{reason} need the program {PROGRAM}, which is neither in the folder of this program \
             nor in $PATH: install it with cargo install --path fleet in Ferretto's sources"
        ),
        _ => format!("cannot run {}: {error}", program.display()),
    }
}
