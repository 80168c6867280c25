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
    let beside = beside().filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&args.arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        bail!(
            "{PROGRAM} is not installed: it is neither in the folder of this program nor in $PATH; \
            install it with cargo install --path query in Ferretto's sources"
        );
    }
    Err(Error::new(error)).with_context(|| format!("cannot run {}", program.display()))
}

fn beside() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.join(PROGRAM))
}
