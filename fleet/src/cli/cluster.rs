//! The subcommands `scheduler` and `executor`.

use std::fs::Permissions;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ferretto_fleet::cluster::{Access, ExecutorOptions, PORT, execute, schedule};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Distribute parts of queries to executors, for 'ferretto-fleet --cluster'.
///
/// A client can run any query, and so read all files that the executors can read. Clients are
/// programs of this user on this machine, or with --secret-file all that know the secret, whose
/// connections are encrypted.
#[derive(Debug, Parser)]
#[command(name = "ferretto-fleet scheduler", max_term_width = 100)]
struct Scheduler {
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    bind: IpAddr,

    /// The port to listen on; 0 for any free port.
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,

    /// The file with the secret of the cluster, which only its owner may read. Clients and
    /// executors need the same. Without it, only programs of this user on this machine can connect.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

/// Run the parts of queries that a scheduler distributes.
///
/// Traces are read from the paths of the query: folders that are shared under the same path, or
/// object stores.
#[derive(Debug, Parser)]
#[command(name = "ferretto-fleet executor", max_term_width = 100)]
struct Executor {
    /// The address of the scheduler.
    #[arg(long, value_name = "URL", default_value = "df://127.0.0.1:50050")]
    scheduler: String,

    /// The address to listen on. The ports are free ones.
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    bind: IpAddr,

    /// The name or address of this machine for the others, if it is not --bind.
    #[arg(long, value_name = "HOST")]
    external: Option<String>,

    /// The number of concurrent tasks. The default is one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,

    /// The memory limit of queries, and that of imported traces, such as 2G.
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = super::parse_size)]
    memory_limit: u64,

    /// The folder in which a private one is made for intermediate results. The default is the
    /// folder for temporary files.
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,

    /// The bytes that a query may write to temporary files, beyond which it fails.
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = super::parse_size)]
    max_spill: u64,

    /// The file with the secret of the scheduler.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

/// Runs a scheduler or an executor if the first argument is that subcommand.
pub(super) fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    let role = arguments.next()?;
    let arguments = std::iter::once(program).chain(arguments);
    let result = match role.to_str()? {
        "scheduler" => {
            let args = Scheduler::parse_from(arguments);
            super::runtime().and_then(|runtime| {
                let access = access(args.secret_file.as_deref())?;
                let work = schedule((args.bind, args.port).into(), &access, |address| {
                    eprintln!("scheduler listens on df://{address}");
                    say_who_may_connect(&access);
                });
                runtime.block_on(until_ended(work))
            })
        }
        "executor" => {
            let args = Executor::parse_from(arguments);
            super::runtime().and_then(|runtime| runtime.block_on(run_executor(args)))
        }
        _ => return None,
    };
    Some(super::report(result))
}

fn access(secret: Option<&Path>) -> Result<Access, String> {
    Access::of(secret).map_err(|e| e.to_string())
}

/// Says whom a server without a secret admits.
fn say_who_may_connect(access: &Access) {
    if !access.has_secret() {
        eprintln!("without --secret-file, only programs of this user on this machine can connect");
    }
}

async fn run_executor(args: Executor) -> Result<(), String> {
    // A folder that only this user can enter: others may not read intermediate results.
    let mut private = tempfile::Builder::new();
    private
        .prefix("ferretto-executor-")
        .permissions(Permissions::from_mode(0o700));
    let folder = match &args.work_dir {
        Some(folder) => private.tempdir_in(folder),
        None => private.tempdir(),
    };
    let folder = folder.map_err(|e| format!("cannot create a folder for results: {e}"))?;
    let options = ExecutorOptions {
        access: access(args.secret_file.as_deref())?,
        max_spill: args.max_spill,
        scheduler: args.scheduler,
        bind: args.bind,
        external: args.external,
        threads: args.threads,
        memory: args.memory_limit,
        folder: folder.path().to_owned(),
    };
    eprintln!("executor runs for {}", options.scheduler);
    say_who_may_connect(&options.access);
    until_ended(execute(options)).await
}

/// Runs the work until it ends or a signal arrives.
pub(super) async fn until_ended(
    work: impl Future<Output = Result<(), ferretto_fleet::error::SqlError>>,
) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    tokio::select! {
        done = work => done.map_err(|e| e.to_string()),
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
