//! `perfetto -d` and `-D`.
//!
//! The parent has parsed everything and opened the output; the background process gets the config over its standard
//! input, which is a socket, and the output as its standard output. On the socket it answers with single bytes: that
//! it has left the terminal, then how the recording stands.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ferretto_proto::{Message, TraceConfig};

use super::run::{self, Job, Status};
use super::{FAILURE, start_delay};
use crate::daemon;

/// How long `-D` waits for the data sources.
const WAIT: Duration = Duration::from_secs(30);
/// How long the background process may take to leave the terminal.
const DETACH: Duration = Duration::from_secs(10);

/// First argument of the background process: whether there is an output.
const WITH_OUTPUT: &str = "output";
const WITHOUT_OUTPUT: &str = "no-output";

const DETACHED: u8 = b'd';
const STARTED: u8 = 0;
const FAILED: u8 = 1;
const TIMED_OUT: u8 = 2;

/// Starts the recording in the background and prints its process id. With `wait` it returns when all data sources
/// have started.
pub(super) fn start(job: Job, wait: bool) -> Result<ExitCode> {
    let (mut ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
    let (argument, stdout) = match job.file {
        Some(file) => (WITH_OUTPUT, Stdio::from(file)),
        None => (WITHOUT_OUTPUT, Stdio::null()),
    };
    let mut child = daemon::command("perfetto")
        .arg(argument)
        .arg(job.path.unwrap_or_default())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(stdout)
        .spawn()
        .context("cannot start the background process")?;
    ours.write_all(&job.config.encode_to_vec())
        .and_then(|()| ours.shutdown(Shutdown::Write))
        .context("cannot talk to the background process")?;
    if answer(&mut ours, DETACH)? != Some(DETACHED) {
        eprintln!("Background process didn't report anything");
        return Ok(ExitCode::from(FAILURE));
    }
    println!("{}", child.id());
    io::stdout().flush()?;
    if !wait {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(match answer(&mut ours, WAIT)? {
        Some(STARTED) => ExitCode::SUCCESS,
        Some(TIMED_OUT) | None => {
            if let Ok(Some(status)) = child.try_wait() {
                eprintln!(
                    "Background process failed, WaitStatus={}",
                    status.into_raw_status()
                );
                return Ok(ExitCode::from(FAILURE));
            }
            eprintln!("Timeout waiting for all data sources to start");
            ExitCode::from(TIMED_OUT)
        }
        Some(_) => ExitCode::from(FAILURE),
    })
}

trait RawStatus {
    fn into_raw_status(self) -> i32;
}

impl RawStatus for std::process::ExitStatus {
    fn into_raw_status(self) -> i32 {
        std::os::unix::process::ExitStatusExt::into_raw(self)
    }
}

/// The next byte from the background process; `None` if none came in time or it is gone.
fn answer(stream: &mut UnixStream, limit: Duration) -> Result<Option<u8>> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Err(error) => return Err(error).context("cannot hear the background process"),
        }
    }
}

/// The background process.
pub(crate) fn main(args: &[OsString]) -> ExitCode {
    record(args).unwrap_or(ExitCode::from(FAILURE))
}

fn record(args: &[OsString]) -> Result<ExitCode> {
    let mut parent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut config = Vec::new();
    parent.read_to_end(&mut config)?;
    let with_output = args.first().is_some_and(|argument| argument == WITH_OUTPUT);
    let file = match with_output {
        true => Some(io::stdout().as_fd().try_clone_to_owned()?.into()),
        false => None,
    };
    // Relative paths are resolved before the folder is left.
    let path = args.get(1).map(|path| match path == "-" {
        true => path.into(),
        false => std::path::absolute(path).unwrap_or_else(|_| path.into()),
    });
    daemon::detach()?;
    parent.write_all(&[DETACHED])?;
    let config = TraceConfig::decode_from_slice(&config)?;
    start_delay(&config)?;
    let name = path.as_deref().unwrap_or("".as_ref()).display().to_string();
    let mut told = false;
    let job = Job {
        config,
        name,
        file,
        path,
    };
    Ok(run::run(job, |status| {
        if !told {
            told = true;
            let byte = match status {
                Status::Started => STARTED,
                Status::Failed => FAILED,
                Status::TimedOut => TIMED_OUT,
            };
            // Nobody may be waiting.
            let _ = parent.write_all(&[byte]);
        }
    }))
}
