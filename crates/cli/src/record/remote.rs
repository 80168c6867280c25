//! Records another machine: runs Ferretto there through ssh, and transfers the trace.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};

use super::RecordArgs;
use super::output::Target;
use super::{INTERRUPTED, report};
use crate::session::Signals;

/// The scheme of a machine's address.
const SCHEME: &str = "ssh://";
/// The exit code of ssh if it cannot connect.
const NOT_REACHED: i32 = 255;
/// The exit code of a shell if it does not find a program.
const NOT_FOUND: i32 = 127;
/// A shell script that runs its arguments, and terminates them when standard input ends: a signal
/// would end ssh, but not the remote program.
const UNTIL_INPUT_ENDS: &str = "exec 3<&0; \"$0\" \"$@\" </dev/null & main=$!; \
    { while read -r _; do :; done; kill -TERM $main; } <&3 >/dev/null 2>&1 & watch=$!; \
    wait $main; code=$?; kill $watch 2>/dev/null; exit $code";

/// Records the machine of `args.host`.
pub(super) fn run(args: &RecordArgs, host: &str) -> Result<ExitCode> {
    check(host)?;
    let mut signals = Signals::new().context("cannot handle signals")?;
    let Some(target) = Target::open(&args.output, &[], &mut signals)? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let mut ssh = start(args, host, Part::Command)?;
    let mut out = target.writer().context("cannot use the file")?;
    let copied = copy(&mut ssh, &mut out, &mut signals);
    drop(out);
    let code = match &copied {
        Ok(_) => ssh.wait().context("cannot wait for ssh")?.code(),
        Err(_) => {
            let _ = ssh.kill();
            let _ = ssh.wait();
            return copied.map(|_| ExitCode::FAILURE);
        }
    };
    let is_empty = matches!(copied, Ok(0));
    if let Some(reason) = failure(args, host, code).filter(|_| is_empty) {
        bail!("{reason}");
    }
    signals.set_cleaned();
    target.rename()?;
    let code = u8::try_from(code.unwrap_or(1)).unwrap_or(1);
    if report::closing(target, &[], &mut signals, args.quiet)? {
        Ok(ExitCode::from(code))
    } else {
        Ok(ExitCode::from(INTERRUPTED))
    }
}

pub(super) fn check(host: &str) -> Result<()> {
    let name = host.strip_prefix(SCHEME).unwrap_or_default();
    // A name that starts with a dash would be an option of ssh.
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        bail!("--host takes ssh://USER@MACHINE or ssh://MACHINE:PORT, not \"{host}\"");
    }
    Ok(())
}

/// The role of a machine in a recording with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The command runs there.
    Command,
    /// The command runs elsewhere, and this machine is recorded until the command ends.
    Beside,
}

/// Starts recording a machine, whose standard output is the trace.
pub(super) fn start(args: &RecordArgs, host: &str, part: Part) -> Result<Child> {
    let mut words: Vec<String> = ["sh", "-c", UNTIL_INPUT_ENDS].map(str::to_owned).into();
    words.push(args.host_program.clone());
    words.extend(["record", "-o", "-", "--quiet"].map(str::to_owned));
    let is_beside = part == Part::Beside && !args.command.is_empty();
    if let Some(duration) = args.duration.or(is_beside.then_some(Duration::ZERO)) {
        words.push(format!("--duration={}ms", duration.as_millis()));
    }
    if let Some(interval) = args.heap {
        words.push(format!("--heap={interval}"));
        words.push(format!("--heap-dumps={}ms", args.heap_dumps.as_millis()));
        words.extend(args.heap_mmap.then(|| "--heap-mmap".to_owned()));
    }
    if let Some(rate) = args.perf {
        words.push(format!("--perf={rate}"));
    }
    if args.off_cpu {
        words.push("--off-cpu".to_owned());
    }
    words.extend(args.presets.words());
    words.extend(args.pids.iter().map(|pid| format!("--pid={pid}")));
    let line = words.iter().map(|word| quoted(word.as_ref()));
    let mut line = line.collect::<Result<Vec<_>>>()?;
    if !args.command.is_empty() && part == Part::Command {
        line.push("--".to_owned());
        for word in &args.command {
            line.push(quoted(word)?);
        }
    }
    run_there(host, &line.join(" "))
}

/// Runs a line in the shell of a machine.
pub(super) fn run_there(host: &str, line: &str) -> Result<Child> {
    Command::new("ssh")
        .args(["-T", "--", host])
        .arg(line)
        // This process handles Ctrl-C, and ends the remote program.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run ssh")
}

/// Explains a failure by the exit code of ssh.
pub(super) fn failure(args: &RecordArgs, host: &str, code: Option<i32>) -> Option<String> {
    let program = &args.host_program;
    match code {
        Some(NOT_REACHED) => Some(format!("ssh cannot connect to {host}; try: ssh {host}")),
        Some(NOT_FOUND) => Some(format!(
            "{host} has no {program}; install it there, or give its path with --host-program"
        )),
        _ => None,
    }
}

/// Quotes a word for the remote shell.
pub(super) fn quoted(word: &OsStr) -> Result<String> {
    let Some(text) = word.to_str() else {
        bail!("{word:?} is not text, and cannot be sent to a machine");
    };
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

/// Copies the trace to its end, and returns the number of bytes. A signal ends the recording on the
/// machine; a second one aborts.
fn copy(ssh: &mut Child, out: &mut File, signals: &mut Signals) -> Result<u64> {
    let Some(mut trace) = ssh.stdout.take() else {
        return Ok(0);
    };
    let mut total = 0;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(trace.as_fd(), PollFlags::IN)];
        fds.extend(
            signals
                .fds()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        let is_readable = !fds[0].revents().is_empty();
        drop(fds);
        if signals.take().iter().any(|signal| signal.ends()) && ssh.stdin.take().is_none() {
            bail!("aborted; the trace is incomplete");
        }
        if is_readable {
            match trace.read(&mut buffer).context("cannot read the trace")? {
                0 => return Ok(total),
                count => {
                    total += count as u64;
                    out.write_all(&buffer[..count])
                        .context("cannot write the trace")?;
                }
            }
        }
    }
}
