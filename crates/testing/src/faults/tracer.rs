//! Runs a program under a tracer that counts its calls, and lets one fail.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};

use super::calls::Effect;
use super::calls::{self, Kind};
use super::fault::Fault;
use super::filter::{self, BEGIN};
use super::registers::Registers;

/// The longest time that a program may take by default.
const LIMIT: Duration = Duration::from_secs(60);

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// Ended by a signal.
    Killed(i32),
    /// It did not end in time, and was killed.
    Stuck,
}

/// The calls of a program, and its end.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub end: End,
    /// The numbers of calls of each kind.
    pub counts: BTreeMap<Kind, u64>,
    /// The call that failed; `None` if the program did not make it.
    pub failed: Option<String>,
    /// The calls in which the threads of a stuck program were.
    pub stuck_in: String,
}

/// A program to be run under the tracer.
#[derive(Debug)]
pub struct Run {
    command: Command,
    fault: Option<Fault>,
    limit: Duration,
}

impl Run {
    pub fn new(command: Command) -> Self {
        Self {
            command,
            fault: None,
            limit: LIMIT,
        }
    }

    /// Lets a call fail.
    pub fn fault(mut self, fault: Option<Fault>) -> Self {
        self.fault = fault;
        self
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the program to its end. Its standard streams must not be pipes that this thread reads.
    pub fn outcome(self) -> io::Result<Outcome> {
        self.trace(|_| ())
    }

    /// Runs the program on a thread of its own, and returns its process id.
    pub fn start(self) -> io::Result<(i32, JoinHandle<Outcome>)> {
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            self.trace(|pid| {
                let _ = sender.send(pid);
            })
            .expect("the program can be traced")
        });
        let pid = receiver.recv().map_err(io::Error::other)?;
        Ok((pid, thread))
    }

    fn trace(mut self, started: impl FnOnce(i32)) -> io::Result<Outcome> {
        check_program(&self.command)?;
        filter::install(&mut self.command);
        let child = self.command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let process = rustix::process::pidfd_open(
            rustix::process::Pid::from_child(&child),
            rustix::process::PidfdFlags::empty(),
        )?;
        started(pid.as_raw());
        let (over, is_over) = channel::<()>();
        let limit = self.limit;
        let watch = std::thread::spawn(move || watch(pid, process.as_fd(), &is_over, limit));
        let mut tracer = Tracer {
            pid,
            fault: self.fault,
            began: false,
            threads: BTreeMap::new(),
            counts: BTreeMap::new(),
            failed: None,
        };
        let end = tracer.run();
        drop(over);
        let stuck_in = watch.join().expect("the watch");
        tracer.end_rest();
        Ok(Outcome {
            end: match (end?, &stuck_in) {
                (_, Some(_)) => End::Stuck,
                (end, None) => end,
            },
            counts: tracer.counts,
            failed: tracer.failed,
            stuck_in: stuck_in.unwrap_or_default(),
        })
    }
}

/// Fails if a program cannot be executed. Its process could not say so: it would stop at the call
/// that does, and wait for a tracer that waits for it.
fn check_program(command: &Command) -> io::Result<()> {
    let program = Path::new(command.get_program());
    let folder = command.get_current_dir().unwrap_or(Path::new("."));
    let is_executable = |path: &Path| {
        let path = folder.join(path);
        path.is_file() && access(&path, Access::EXEC_OK).is_ok()
    };
    let is_found = if program.components().count() > 1 {
        is_executable(program)
    } else {
        let search = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&search).any(|folder| is_executable(&folder.join(program)))
    };
    if is_found {
        return Ok(());
    }
    let reason = format!("{} cannot be executed", program.display());
    Err(io::Error::new(io::ErrorKind::NotFound, reason))
}

/// Kills a program at the limit, unless it ends before. Returns the calls of its threads. Time for
/// which it could run and had no CPU does not count: it is not stuck then.
fn watch(
    pid: Pid,
    process: impl AsFd,
    is_over: &Receiver<()>,
    mut limit: Duration,
) -> Option<String> {
    let mut counted = Duration::ZERO;
    while !limit.is_zero() {
        match is_over.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return None,
        }
        let waited = waited_for_cpu(pid);
        limit = waited.saturating_sub(counted);
        counted = waited.max(counted);
    }
    // It may have ended just now.
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    let now = rustix::event::Timespec::default();
    if poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0) {
        return None;
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let threads = tasks.flatten().map(|task| {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        format!("{} in call {}", read("comm").trim(), read("syscall").trim())
    });
    let stuck_in = threads.collect::<Vec<_>>().join("; ");
    let _ = rustix::process::pidfd_send_signal(process, rustix::process::Signal::KILL);
    Some(stuck_in)
}

/// Returns the time that the threads of a program, and this tracer's, have waited for a CPU.
fn waited_for_cpu(pid: Pid) -> Duration {
    let of = |folder: &str| {
        let tasks = fs::read_dir(folder).into_iter().flatten().flatten();
        let texts = tasks.map(|task| fs::read_to_string(task.path().join("schedstat")));
        let waits = texts.flatten().map(|text| {
            let waited = text
                .split(' ')
                .nth(1)
                .and_then(|waited| waited.parse().ok());
            Duration::from_nanos(waited.unwrap_or(0))
        });
        waits.max().unwrap_or_default()
    };
    of(&format!("/proc/{pid}/task")) + of("/proc/self/task")
}

struct Tracer {
    pid: Pid,
    fault: Option<Fault>,
    /// True once the program's own code runs.
    began: bool,
    /// The stopped and running threads: true if they are of the program itself.
    threads: BTreeMap<i32, bool>,
    counts: BTreeMap<Kind, u64>,
    failed: Option<String>,
}

/// Only the children of this thread: other tests have programs, too.
fn wait_for_any() -> nix::Result<WaitStatus> {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    loop {
        match waitpid(Pid::from_raw(-1), Some(flags)) {
            Err(Errno::EINTR) => {}
            status => return status,
        }
    }
}

impl Tracer {
    fn run(&mut self) -> io::Result<End> {
        loop {
            match wait_for_any()? {
                WaitStatus::Exited(pid, code) if pid == self.pid => return Ok(End::Exited(code)),
                WaitStatus::Signaled(pid, signal, _) if pid == self.pid => {
                    return Ok(End::Killed(signal as i32));
                }
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                    self.threads.remove(&pid.as_raw());
                }
                status => self.stopped(status),
            }
        }
    }

    /// Ends the processes that the program has left behind.
    fn end_rest(&mut self) {
        for (pid, _) in std::mem::take(&mut self.threads) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        loop {
            match wait_for_any() {
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {}
                Ok(status) => {
                    if let Some(pid) = status.pid() {
                        let _ = kill(pid, Signal::SIGKILL);
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn stopped(&mut self, status: WaitStatus) {
        let Some(pid) = status.pid() else { return };
        let is_new = !self.threads.contains_key(&pid.as_raw());
        if is_new {
            let is_own = thread_group(pid) == Some(self.pid.as_raw());
            self.threads.insert(pid.as_raw(), is_own);
        }
        let signal = match status {
            // The program was loaded.
            WaitStatus::Stopped(_, Signal::SIGTRAP) if is_new && pid == self.pid => {
                let options = Options::PTRACE_O_TRACESECCOMP
                    | Options::PTRACE_O_EXITKILL
                    | Options::PTRACE_O_TRACECLONE
                    | Options::PTRACE_O_TRACEFORK
                    | Options::PTRACE_O_TRACEVFORK
                    | Options::PTRACE_O_TRACEEXEC;
                // Fails only if it was killed.
                let _ = ptrace::setoptions(pid, options);
                None
            }
            // New threads and processes begin so.
            WaitStatus::Stopped(_, Signal::SIGSTOP) if is_new => None,
            WaitStatus::Stopped(_, signal) => Some(signal),
            WaitStatus::PtraceEvent(_, _, event) => {
                if event == ptrace::Event::PTRACE_EVENT_SECCOMP as i32 {
                    self.call(pid);
                }
                None
            }
            _ => None,
        };
        // Fails only if it was killed.
        let _ = ptrace::cont(pid, signal);
    }

    /// Counts the call in which the thread is, and lets it fail if it is the one.
    fn call(&mut self, pid: Pid) {
        if self.threads.get(&pid.as_raw()) != Some(&true) {
            return;
        }
        let Some(mut registers) = Registers::of(pid) else {
            return;
        };
        let call = registers.call();
        self.began |= call == BEGIN;
        let arguments = registers.arguments();
        if !self.began {
            return;
        }
        let Some(kind) = calls::kind_of(pid.as_raw(), call, arguments) else {
            return;
        };
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let Some(fault) = self.fault.filter(|fault| fault.strikes(kind, *count)) else {
            return;
        };
        let text = || format!("call {call} {arguments:x?} of {}", comm(pid));
        self.failed.get_or_insert_with(text);
        match fault.effect {
            Effect::Error(error) | Effect::LastingError(error) => registers.fail(error),
            Effect::Short => {
                let [_, mut at, mut length, ..] = arguments;
                // The first part of several becomes the only one.
                let single = match call {
                    libc::SYS_writev => libc::SYS_write,
                    libc::SYS_readv => libc::SYS_read,
                    call => call,
                };
                if single != call {
                    let word = |at: u64| ptrace::read(pid, at as ptrace::AddressType);
                    let (Ok(base), Ok(size)) = (word(at), word(at.wrapping_add(8))) else {
                        return;
                    };
                    (at, length) = (base.cast_unsigned(), size.cast_unsigned());
                }
                let is_message = [libc::SYS_sendmsg, libc::SYS_recvmsg].contains(&call);
                if !is_message && length > 1 {
                    length /= 2;
                }
                registers.replace(single, at, length);
            }
            Effect::Kill => {
                let _ = kill(self.pid, Signal::SIGKILL);
                return;
            }
        }
        registers.write(pid);
    }
}

fn thread_group(pid: Pid) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

fn comm(pid: Pid) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim().to_owned()
}
