//! The recorded command.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use ferretto_trace::summary::CommandResources;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::launch::{Gate, PRELOAD_LATER};
use super::program::{self, exit_code};
use super::resources::Meter;
use crate::preload;

/// The error of a command that the system does not start.
#[derive(Debug)]
pub(super) struct NotRun {
    program: String,
    /// The exit code of `ferretto`.
    pub(super) code: u8,
}

impl NotRun {
    pub(super) fn new(program: &OsStr, error: &io::Error) -> Self {
        Self {
            program: program.to_string_lossy().into_owned(),
            code: exit_code(error),
        }
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot run {}", self.program)
    }
}

/// A command, its gate and its output.
#[derive(Debug)]
pub(super) struct CommandLine {
    /// The program and its arguments; empty without a command.
    pub(super) words: Vec<OsString>,
    /// The variables added to its environment.
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// Set if standard output is the trace, so the command prints to standard error.
    pub(super) output_to_stderr: bool,
}

impl CommandLine {
    fn surround<'a>(&self, command: &'a mut Command) -> io::Result<&'a mut Command> {
        if self.output_to_stderr {
            let stderr = io::stderr().as_fd().try_clone_to_owned()?;
            command.stdout(Stdio::from(stderr));
        }
        Ok(command.envs(self.variables.iter().cloned()))
    }
}

/// A started command.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    status: Option<ExitStatus>,
    /// The gate at which it waits.
    gate: Option<Gate>,
    /// Set if the library for heap profiles is preloaded into it.
    is_preloaded: bool,
    meter: Meter,
    /// The resources that it used, once it has ended.
    resources: Option<CommandResources>,
    /// The time of its end, in nanoseconds since boot.
    ended: Option<u64>,
}

impl Running {
    /// Starts a command.
    pub(super) fn start(command: &CommandLine) -> io::Result<Self> {
        let (program, args) = command
            .words
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut program = program::command(program);
        let child = command.surround(program.args(args))?.spawn()?;
        Ok(Self::new(command, child, None))
    }

    /// Like [`start`](Self::start), but the command runs only after [`release`](Self::release).
    pub(super) fn hold(command: &CommandLine) -> io::Result<Self> {
        let (gate, mut waiting) = Gate::new(&command.words)?;
        command.surround(&mut waiting)?;
        // The waiting process has not executed the command yet.
        for (name, value) in &command.variables {
            if *name == preload::VARIABLE {
                waiting.env(PRELOAD_LATER, value).env_remove(name);
            }
        }
        let child = waiting.spawn()?;
        Ok(Self::new(command, child, Some(gate)))
    }

    fn new(command: &CommandLine, child: Child, gate: Option<Gate>) -> Self {
        let mut variables = command.variables.iter();
        Self {
            is_preloaded: variables.any(|(name, _)| *name == preload::VARIABLE),
            status: None,
            gate,
            meter: Meter::start(child.id()),
            resources: None,
            ended: None,
            child,
        }
    }

    /// Runs a held command.
    pub(super) fn release(&mut self) -> io::Result<()> {
        match self.gate.take() {
            Some(gate) => match gate.wait(|| self.has_ended())? {
                Some(open) => {
                    self.meter.release();
                    open.pass()
                }
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Kills a command that is still held. Returns false if it runs already.
    pub(super) fn cancel(&mut self) -> bool {
        let is_held = self.gate.take().is_some();
        if is_held {
            // The process has ended in either case.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        is_held
    }

    /// Returns its process id.
    pub(super) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Returns true if it has ended. Never blocks.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.status.is_none() && self.can_be_reaped() {
            let ended = self.meter.end();
            // An error means that other code reaped it, so its status is lost.
            self.status = self.child.try_wait().unwrap_or(Some(ExitStatus::default()));
            self.ended = Some(ended.at());
            self.resources = Some(ended.reaped());
        }
        self.status.is_some()
    }

    fn can_be_reaped(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // An error means that other code has reaped it.
        pid.is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
    }

    /// Returns the time of its end in nanoseconds since boot, if it has ended.
    pub(super) fn ended(&self) -> Option<u64> {
        self.ended
    }

    /// Returns the resources that it used, once it has ended.
    pub(super) fn resources(&self) -> Option<CommandResources> {
        self.resources
    }

    /// Sends a signal, unless it has ended.
    pub(super) fn signal(&mut self, signal: Signal) {
        if !self.has_ended()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // The process may end at this moment, which is fine.
            let _ = kill_process(pid, signal);
        }
    }

    /// Returns the exit code to pass on: its own, or 128 plus the signal.
    pub(super) fn exit_code(&self) -> Option<ExitCode> {
        let status = self.status?;
        let code = match (status.code(), status.signal()) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 1,
        };
        Some(ExitCode::from(code as u8))
    }

    /// Returns true if it has probably not started because of the library for heap profiles.
    pub(super) fn may_not_have_started(&self) -> bool {
        let code = self.status.and_then(|status| status.code());
        self.is_preloaded && code == Some(preload::NOT_STARTED)
    }

    /// Returns the signal that killed it.
    pub(super) fn killed_by(&self) -> Option<i32> {
        self.status?.signal()
    }
}
