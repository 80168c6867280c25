//! Background processes.
//!
//! A process cannot fork safely once it may have threads, so the background process is a new
//! process of this binary. It leaves the terminal ([`detach`]) and notifies the waiting parent.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::output::print_line;

/// The first argument of a background process, followed by the program. Internal.
pub(crate) const ARGUMENT: &str = "background-process";

/// Returns a command that runs `program` of this binary in the background once it calls [`detach`].
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    // The name in process lists. The argument selects the program.
    command.arg0(program).arg(ARGUMENT).arg(program);
    command
}

/// Starts `program` with `args` in the background and prints its process id.
pub(crate) fn start(program: &str, args: &[OsString]) -> Result<ExitCode> {
    let mut child = command(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the background process")?;
    let pid = child.id();
    let mut message = Vec::new();
    // The other end closes when the process has left the terminal or failed.
    if let Some(mut stdout) = child.stdout.take() {
        stdout
            .read_to_end(&mut message)
            .context("cannot wait for the background process")?;
    }
    if message != DETACHED {
        bail!("the background process did not start");
    }
    print_line(pid)?;
    Ok(ExitCode::SUCCESS)
}

const DETACHED: &[u8] = b"detached";

/// Starts a background process: notifies the waiting parent on standard output, and leaves the
/// terminal.
pub(crate) fn report_and_detach() -> Result<()> {
    io::stdout().write_all(DETACHED)?;
    io::stdout().flush()?;
    detach()
}

/// Leaves session, folder and terminal of the parent process.
pub(crate) fn detach() -> Result<()> {
    // This fails only for the leader of a process group, which has detached already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").context("cannot change to /")?;
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).context("cannot release standard input")?;
    rustix::stdio::dup2_stdout(&null).context("cannot release standard output")?;
    rustix::stdio::dup2_stderr(&null).context("cannot release standard error")?;
    Ok(())
}

/// Returns the program and its own arguments if these are the arguments of a background process.
pub(crate) fn parse(args: &[OsString]) -> Option<(&OsStr, &[OsString])> {
    match args {
        [argument, program, rest @ ..] if argument == ARGUMENT => Some((program, rest)),
        _ => None,
    }
}
