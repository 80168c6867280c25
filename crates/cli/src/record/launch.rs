//! A command that is held until profilers are ready.
//!
//! Profilers need the process of the command before the command runs. So this binary is started
//! instead ([`main`]). It connects to a socket, waits for a byte, and then executes the command in
//! the same process. If the recorder ends, it ends.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::program::{self, exit_code};
use crate::errors::CANNOT_RUN;
use crate::preload;
use crate::private_folder::PrivateFolder;

/// The first argument of a process that becomes a command, followed by socket and command.
/// Internal.
pub(crate) const ARGUMENT: &str = "launch-command";
/// The libraries to preload into the command, but not into the waiting process.
pub(super) const PRELOAD_LATER: &str = "FERRETTO_LAUNCH_PRELOAD";
/// The timeout of the waiting process's start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A gate that holds a command. If it is dropped, the command does not run.
#[derive(Debug)]
pub(super) struct Gate {
    listener: UnixListener,
    _folder: PrivateFolder,
}

impl Gate {
    /// Creates a gate, and the command line of the waiting process.
    pub(super) fn new(command: &[OsString]) -> io::Result<(Self, Command)> {
        let folder = PrivateFolder::create()?;
        let path = folder.path().join("gate");
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let mut waiting = Command::new("/proc/self/exe");
        waiting
            .arg0("ferretto")
            .arg(ARGUMENT)
            .arg(&path)
            .args(command);
        let gate = Self {
            listener,
            _folder: folder,
        };
        Ok((gate, waiting))
    }

    /// Waits for the process. Returns `None` if it has ended.
    pub(super) fn wait(self, mut has_ended: impl FnMut() -> bool) -> io::Result<Option<Open>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if is_of_this_user(&stream) => return Ok(Some(Open(stream))),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // The process has ended; waiting for the command reports that.
            if has_ended() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            let tick = Timespec {
                tv_sec: 0,
                tv_nsec: 50_000_000,
            };
            // An interrupted wait is repeated.
            let _ = poll(&mut fds, Some(&tick));
        }
    }
}

/// A gate with its waiting process.
#[derive(Debug)]
pub(super) struct Open(UnixStream);

impl Open {
    /// Runs the command.
    pub(super) fn pass(mut self) -> io::Result<()> {
        self.0.write_all(b"g")
    }
}

fn is_of_this_user(stream: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Returns the rest of the arguments if they are those of a waiting process.
pub(crate) fn parse(args: &[OsString]) -> Option<&[OsString]> {
    match args {
        [argument, rest @ ..] if argument == ARGUMENT && rest.len() > 1 => Some(rest),
        _ => None,
    }
}

/// Waits at the gate and executes the command.
pub(crate) fn main(args: &[OsString]) -> ExitCode {
    let [gate, program, rest @ ..] = args else {
        return ExitCode::from(CANNOT_RUN);
    };
    let is_let_go = UnixStream::connect(gate).and_then(|mut gate| gate.read_exact(&mut [0]));
    if is_let_go.is_err() {
        // The recorder has ended.
        return ExitCode::from(CANNOT_RUN);
    }
    let mut command = program::command(program);
    command.args(rest);
    if let Some(libraries) = std::env::var_os(PRELOAD_LATER) {
        command
            .env_remove(PRELOAD_LATER)
            .env(preload::VARIABLE, libraries);
    }
    let error = command.exec();
    let shown = program.to_string_lossy();
    eprintln!(
        "ferretto: cannot run {shown}: {}",
        crate::errors::reason(&error)
    );
    ExitCode::from(exit_code(&error))
}
