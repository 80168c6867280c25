//! `ferretto doctor`: checks what this machine can record, and shows commands that enable the rest.

mod check;
mod checks;
mod print;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use self::check::{Check, State};

/// The exit code if something cannot be recorded.
const SOMETHING_MISSING: u8 = 3;

/// Check what this machine can record, and show commands that enable the rest
///
/// Checks as this user what recordings need: kernel events, callstacks, names of kernel functions,
/// the sockets of a running service, limits and disk space. Changes nothing. After each line that
/// is not `ok` come the consequence and the commands that fix it.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 everything works, 3 something does not.

Examples:
  ferretto doctor
  sudo ferretto doctor
  ferretto doctor --json")]
pub(crate) struct DoctorArgs {
    /// Print one JSON object, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let checks = checks::all();
    let mut out = io::BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    let printed = if args.json {
        print::json(&mut out, &checks)
    } else {
        print::text(&mut out, &checks)
    };
    printed
        .and_then(|()| out.flush())
        .context("cannot write the result")?;
    Ok(exit_code(&checks))
}

fn exit_code(checks: &[Check]) -> ExitCode {
    let all_work = checks.iter().all(|check| check.state == State::Works);
    ExitCode::from(if all_work { 0 } else { SOMETHING_MISSING })
}
