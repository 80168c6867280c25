//! `ferretto query`: runs the separate program `ferretto-query`.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Error, Result, bail};
use clap::Args;

use crate::errors::DAMAGED;
use crate::messages;

/// The bytes of messages that are passed on.
const MAX_REPORTED: u64 = 1 << 20;
const PROGRAM: &str = "ferretto-query";

const NOT_INSTALLED: &str = "ferretto-query is not installed: it is neither in the folder of this \
    program nor in $PATH; install it with cargo install --path query in Ferretto's sources";

/// Query a trace with SQL
///
/// Runs the program ferretto-query, from the folder of this program or $PATH, with the same
/// arguments. --json prints an array of objects, like --format json, and errors as JSON lines.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct QueryArgs {
    /// Arguments of ferretto-query: a trace and SQL, or options; --help lists them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// Replaces this process by the program. Returns only if that fails.
pub(crate) fn run(args: &QueryArgs) -> Result<std::convert::Infallible> {
    let program = program();
    let mut command = Command::new(&program);
    for argument in &args.arguments {
        match argument.to_str() {
            Some("--json") => command.args(["--format", "json"]),
            _ => command.arg(argument),
        };
    }
    if messages::is_json() {
        return translated(command);
    }
    let error = command.exec();
    if error.kind() == io::ErrorKind::NotFound {
        bail!(NOT_INSTALLED);
    }
    Err(Error::new(error)).with_context(|| format!("cannot run {}", program.display()))
}

/// Runs the program, and prints what it reports as JSON lines. Ends this process with its code.
fn translated(mut command: Command) -> Result<std::convert::Infallible> {
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(NOT_INSTALLED),
        child => child.context("cannot run ferretto-query")?,
    };
    let mut reported = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let read = stderr.take(MAX_REPORTED).read_to_end(&mut reported);
        read.context("cannot read the messages of ferretto-query")?;
    }
    let status = child.wait().context("cannot wait for ferretto-query")?;
    let text = String::from_utf8_lossy(&reported);
    let text = text.trim().trim_start_matches("ferretto-query: ");
    let has_answer = [Some(0), Some(DAMAGED.into())].contains(&status.code());
    if has_answer {
        for line in text.lines() {
            eprintln!("{}", line.trim_start_matches("ferretto-query: "));
        }
    } else if !text.is_empty() {
        messages::tell_error("ferretto-query", text);
    }
    std::process::exit(status.code().unwrap_or(1));
}

/// Returns the program that runs queries.
pub(crate) fn program() -> PathBuf {
    let beside = beside().filter(|path| path.is_file());
    beside.unwrap_or_else(|| PathBuf::from(PROGRAM))
}

/// Fails if the program that runs queries is not installed.
pub(crate) fn check_installed() -> Result<()> {
    if installed().is_none() {
        bail!(NOT_INSTALLED);
    }
    Ok(())
}

/// Returns the path of the program that runs queries; `None` if it is not installed.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    beside()
        .into_iter()
        .chain(in_path)
        .find(|path| path.is_file())
}

fn beside() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.join(PROGRAM))
}
