//! `perfetto -d` and `-D`.
//!
//! The parent parses the command line and opens the output. The background process receives the job
//! over its standard input, which is a socket, and the output as its standard output. It replies on
//! the socket with single bytes: one when it has left the terminal, then the status of the
//! recording.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::job::Job;
use super::notify::Listeners;
use super::outcome::FAILURE;
use super::run;
use super::service::Provider;
use crate::daemon::background;
use crate::errors::message;
use crate::output::print_line;

/// The time that `-D` waits for the start of the data sources.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The longest time until the background process has left the terminal.
const DETACH_LIMIT: Duration = Duration::from_secs(10);
/// The exit code of `-D` if a data source has not started in time.
const TIMED_OUT: u8 = 2;

const DETACHED: u8 = b'd';

/// The result of waiting for a reply of the background process.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Byte(u8),
    Timeout,
    Closed,
}

/// Starts the job in the background and prints its process id. With `wait` it returns when all data
/// sources have started.
pub(super) fn start(job: Job, notify_fd: Option<i32>, wait: bool) -> Result<ExitCode> {
    let (mut ours, theirs) = UnixStream::pair().context("cannot create a socket")?;
    let (word, bytes) = job.encode();
    let mut command = background::command("perfetto");
    command.arg(word).arg(provider_word(job.provider));
    command.arg(notify_fd.map_or("none".to_owned(), |number| number.to_string()));
    command.arg(if job.no_clobber { "keep" } else { "replace" });
    let stdout = match job.file {
        Some(file) => {
            command.arg(job.name).arg(job.path.unwrap_or_default());
            Stdio::from(file)
        }
        None => {
            command.arg(job.name);
            Stdio::null()
        }
    };
    let child = command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(stdout)
        .spawn()
        .context("cannot start the background process")?;
    // The command has the other end of the socket.
    drop(command);
    ours.write_all(&bytes)
        .and_then(|()| ours.shutdown(Shutdown::Write))
        .context("cannot send the job to the background process")?;
    if receive(&mut ours, DETACH_LIMIT)? != Reply::Byte(DETACHED) {
        eprintln!("Background process didn't report anything");
        return Ok(ExitCode::from(FAILURE));
    }
    print_line(child.id())?;
    if !wait {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(started(receive(&mut ours, START_LIMIT)?)))
}

/// Returns the exit code of `-D`.
fn started(reply: Reply) -> u8 {
    match reply {
        Reply::Byte(0) => 0,
        Reply::Byte(status) => {
            eprintln!("Background process failed, WaitStatus={status}");
            status
        }
        Reply::Timeout => {
            eprintln!("Timeout waiting for all data sources to start");
            TIMED_OUT
        }
        Reply::Closed => {
            eprintln!("Background process didn't report anything");
            FAILURE
        }
    }
}

/// Waits for a reply of the background process.
fn receive(stream: &mut UnixStream, limit: Duration) -> Result<Reply> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Reply::Timeout);
        }
        stream.set_read_timeout(Some(left))?;
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Ok(Reply::Closed),
            Ok(_) => return Ok(Reply::Byte(byte[0])),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted
                        | io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                ) => {}
            Err(error) => return Err(error).context("cannot receive from the background process"),
        }
    }
}

fn provider_word(provider: Provider) -> &'static str {
    match provider {
        Provider::System => "system",
        Provider::Own {
            system_sockets: false,
        } => "own",
        Provider::Own {
            system_sockets: true,
        } => "own-on-system-sockets",
    }
}

fn provider(word: &OsStr) -> Result<Provider> {
    let known = [false, true].map(|system_sockets| Provider::Own { system_sockets });
    [Provider::System, known[0], known[1]]
        .into_iter()
        .find(|provider| word == provider_word(*provider))
        .context("unknown service")
}

/// Runs the background process.
pub(crate) fn main(args: &[OsString]) -> ExitCode {
    work(args).unwrap_or_else(|error| {
        eprintln!("{}", message(&error));
        ExitCode::from(FAILURE)
    })
}

fn work(args: &[OsString]) -> Result<ExitCode> {
    let [word, service, notify_fd, keep, name, path @ ..] = args else {
        bail!("not started by this program");
    };
    let mut parent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut bytes = Vec::new();
    parent.read_to_end(&mut bytes)?;
    let mut job = Job::decode(&word.to_string_lossy(), bytes, provider(service)?)?;
    job.name = name.to_string_lossy().into_owned();
    job.no_clobber = keep == "keep";
    if let Some(path) = path.first() {
        job.file = Some(io::stdout().as_fd().try_clone_to_owned()?.into());
        // Relative paths are resolved before the folder is left.
        let absolute = std::path::absolute(path)?;
        job.path = Some(if path == "-" {
            path.into()
        } else {
            absolute.clone()
        });
        job.snapshots = Some(absolute);
    }
    let mut listeners = Listeners::inherited(notify_fd.to_string_lossy().parse().ok())?;
    background::detach()?;
    parent.write_all(&[DETACHED])?;
    listeners.add(parent);
    Ok(run::run(&job, &mut listeners))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_021_replies_of_the_background_process_have_exit_codes() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let limit = Duration::from_millis(1);
        assert_eq!(receive(&mut ours, limit).unwrap(), Reply::Timeout);
        theirs.write_all(&[0]).unwrap();
        assert_eq!(receive(&mut ours, limit).unwrap(), Reply::Byte(0));
        drop(theirs);
        assert_eq!(receive(&mut ours, limit).unwrap(), Reply::Closed);
        let replies = [
            Reply::Byte(0),
            Reply::Byte(1),
            Reply::Closed,
            Reply::Timeout,
        ];
        assert_eq!(replies.map(started), [0, 1, 1, 2]);
    }
}
