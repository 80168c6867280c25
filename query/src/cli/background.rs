//! Named servers in the background, and their clients.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_query::rpc::Client;

use super::args::Args;

/// The time after which a server without requests ends, unless another is given.
pub(super) const IDLE: Duration = Duration::from_secs(30 * 60);
/// The time between two looks for the socket of a new server.
const LOOK: Duration = Duration::from_millis(5);
/// The largest size of the messages of a server that cannot start.
const MAX_MESSAGES: u64 = 1 << 16;

/// Returns the folder of the sockets, which only this user can enter.
fn folder() -> Result<PathBuf, String> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let folder = match runtime {
        Some(base) => PathBuf::from(base).join("ferretto-query"),
        None => PathBuf::from(format!("/tmp/ferretto-query-{user}")),
    };
    let failed = |error: io::Error| format!("cannot use the folder {}: {error}", folder.display());
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let found = folder.symlink_metadata().map_err(failed)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(format!(
            "the folder {} is not a private one of this user: remove it",
            folder.display()
        ));
    }
    Ok(folder)
}

/// Returns the socket of a server: at this path, or in the folder of the sockets under this name.
pub(super) fn socket(name: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let of = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(of)
        && name.len() <= 64;
    if !is_name {
        return Err(format!(
            "'{name}' is not a name of a server: use letters, digits, '-' and '_', or a path"
        ));
    }
    Ok(folder()?.join(format!("{name}.sock")))
}

/// Connects to a server.
pub(super) fn connect(name: &str) -> Result<Client, String> {
    let path = socket(name)?;
    Client::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no server '{name}' is running: start one with ferretto query TRACE --start {name}"
        ),
        _ => format!("cannot connect to {}: {error}", path.display()),
    })
}

/// Starts a server in the background, and returns when it listens.
pub(super) fn start(name: &str, trace: &Path, args: &Args) -> Result<(), String> {
    let path = socket(name)?;
    let idle = args.idle.unwrap_or(Some(IDLE));
    let idle = idle.map_or("never".to_owned(), |idle| {
        format!("{}s", idle.as_secs_f64())
    });
    start_program(name, |command| {
        command
            .args(args.passed_on.iter())
            .arg("--serve")
            .arg("--socket")
            .arg(&path)
            .arg("--idle-timeout")
            .arg(idle)
            .arg(trace);
    })
}

/// Starts this program as a server in the background with the arguments that `with` adds, and
/// returns when it listens.
pub(super) fn start_program(name: &str, with: impl FnOnce(&mut Command)) -> Result<(), String> {
    let path = socket(name)?;
    if Client::connect(&path).is_ok() {
        return Err(format!(
            "the server '{name}' is running: stop it with ferretto query --stop {name}"
        ));
    }
    let failed = |error: io::Error| format!("cannot start the server: {error}");
    let mut messages = tempfile::tempfile().map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    // The name under which it was called decides on its arguments.
    command.arg0(std::env::args_os().next().unwrap_or_default());
    with(&mut command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::try_clone(&messages).map_err(failed)?)
        // Ctrl-C in the terminal does not reach it.
        .process_group(0);
    let mut server = command.spawn().map_err(failed)?;
    loop {
        if Client::connect(&path).is_ok() {
            return Ok(());
        }
        if server.try_wait().map_err(failed)?.is_some() {
            let mut text = String::new();
            // Without the messages, the exit is still an error.
            let _ = messages.rewind();
            let _ = messages.take(MAX_MESSAGES).read_to_string(&mut text);
            return Err(format!("the server ended: {}", text.trim()));
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a server.
pub(super) fn stop(name: &str) -> Result<(), String> {
    let client = connect(name)?;
    let failed = |error: io::Error| format!("cannot stop the server '{name}': {error}");
    let peer = rustix::net::sockopt::socket_peercred(client.socket());
    let peer = peer.map_err(|error| failed(error.into()))?;
    if peer.uid != rustix::process::geteuid() {
        return Err(format!("the server '{name}' is not of this user"));
    }
    let signal = rustix::process::Signal::TERM;
    rustix::process::kill_process(peer.pid, signal).map_err(|error| failed(error.into()))?;
    drop(client);
    let path = socket(name)?;
    let begin = Instant::now();
    // The server removes its socket as it ends.
    while Client::connect(&path).is_ok() {
        if begin.elapsed() > Duration::from_secs(10) {
            return Err(format!("the server '{name}' does not end"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
