//! `ferretto doctor`: checks of everything that can be recorded here, and the commands that allow
//! the rest.

mod check;
mod checks;
mod print;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use self::check::{Check, State};

/// Exit code if something cannot be recorded here.
const SOMETHING_MISSING: u8 = 3;

/// Say what can be recorded on this machine, and which commands allow the rest
///
/// Tries what recordings need, as this user: kernel events, callstacks, names of kernel functions,
/// the sockets of a running service, limits and disk. Nothing is changed. Each line that is not
/// `ok` is followed by what does not work for that reason and by the commands that change it.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 everything works, 3 something does not.

Examples:
  ferretto doctor
  sudo ferretto doctor
  ferretto doctor --json")]
pub(crate) struct DoctorArgs {
    /// Print it as one JSON object, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let checks = checks::all();
    let mut out = io::BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    let printed = match args.json {
        true => print::json(&mut out, &checks),
        false => print::text(&mut out, &checks),
    };
    printed
        .and_then(|()| out.flush())
        .context("cannot write what was found")?;
    Ok(exit_code(&checks))
}

fn exit_code(checks: &[Check]) -> ExitCode {
    let all_work = checks.iter().all(|check| check.state == State::Works);
    ExitCode::from(if all_work { 0 } else { SOMETHING_MISSING })
}
