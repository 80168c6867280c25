//! `ferretto query`: runs the separate program `ferretto-query`.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Error, Result, bail};
use clap::Args;

const PROGRAM: &str = "ferretto-query";

const NOT_INSTALLED: &str = "ferretto-query is not installed: it is neither in the folder of this \
    program nor in $PATH; install it with cargo install --path query in Ferretto's sources";

/// Query a trace with SQL
///
/// Runs the program ferretto-query, from the folder of this program or $PATH, with the same
/// arguments.
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
    let error = Command::new(&program).args(&args.arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        bail!(NOT_INSTALLED);
    }
    Err(Error::new(error)).with_context(|| format!("cannot run {}", program.display()))
}

/// Returns the program that runs queries.
pub(crate) fn program() -> PathBuf {
    let beside = beside().filter(|path| path.is_file());
    beside.unwrap_or_else(|| PathBuf::from(PROGRAM))
}

/// Fails if the program that runs queries is not installed.
pub(crate) fn check_installed() -> Result<()> {
    let program = program();
    let is_in = |folder: PathBuf| folder.join(PROGRAM).is_file();
    let path = env::var_os("PATH").unwrap_or_default();
    if !program.is_file() && !env::split_paths(&path).any(is_in) {
        bail!(NOT_INSTALLED);
    }
    Ok(())
}

fn beside() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.join(PROGRAM))
}
