//! Records several other machines into one trace.

use std::fs::File;
use std::io::{self, BufWriter, PipeReader, PipeWriter, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ExitCode};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ferretto_client::machine::read_clocks;
use ferretto_edit::{Machine, MachineMerger, Readings};
use ferretto_format::clock::BOOTTIME;
use ferretto_format::machine_clock::{Comparison, Exchange};
use ferretto_ipc::host::machine_id;
use ferretto_ipc::machine::Machine as Identity;

use super::output::Target;
use super::remote::{Part, check, failure, quoted, run_there, start};
use super::{INTERRUPTED, RecordArgs, report};
use crate::edit::uuid;
use crate::errors::message;
use crate::machine_clock::Asked;
use crate::session::Signals;

/// The number of clock comparisons in a row; the best two are kept.
const ROUNDS: usize = 8;
/// The time between series of comparisons.
const PAUSE: Duration = Duration::from_secs(5);
/// The timeout of the last comparisons.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records all machines of `--host`.
pub(super) fn run(args: &RecordArgs, hosts: &[String]) -> Result<ExitCode> {
    for (index, host) in hosts.iter().enumerate() {
        check(host)?;
        if hosts[..index].contains(host) {
            bail!("--host {host} is given twice");
        }
    }
    if !args.pids.is_empty() {
        bail!("-p selects processes of one machine; remove it, or record one --host");
    }
    let mut signals = Signals::new().context("cannot handle signals")?;
    let Some(target) = Target::open(&args.output, &[], &mut signals)? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let (ended, ending) = io::pipe().context("cannot create a pipe")?;
    let mut remotes = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let part = match index {
            0 => Part::Command,
            _ => Part::Beside,
        };
        remotes.push(Remote::start(args, host, part, &ending)?);
    }
    drop(ending);
    if !wait(args, &mut remotes, ended, &mut signals)? {
        for remote in &mut remotes {
            remote.kill();
        }
        bail!("aborted; no trace is written");
    }
    let mut out = BufWriter::new(target.writer().context("cannot use the file")?);
    let (code, any) = merge(args, remotes, &mut out)?;
    drop(out);
    if !any {
        bail!("no machine was recorded");
    }
    signals.set_cleaned();
    target.rename()?;
    if report::closing(target, &[], &mut signals, args.quiet)? {
        Ok(ExitCode::from(code))
    } else {
        Ok(ExitCode::from(INTERRUPTED))
    }
}

/// Waits until all machines have sent their traces. A signal ends the recordings; returns false
/// after another one.
fn wait(
    args: &RecordArgs,
    remotes: &mut [Remote],
    mut ended: PipeReader,
    signals: &mut Signals,
) -> Result<bool> {
    let mut is_asked = false;
    let mut left = remotes.len();
    while left > 0 {
        if signals.wait_or(&ended, None) {
            let mut which = [0; 1];
            if ended.read(&mut which).context("cannot read a pipe")? == 0 {
                break;
            }
            left -= 1;
            // The others are recorded until the command ends.
            if which == [0] && !args.command.is_empty() {
                remotes.iter_mut().for_each(Remote::end);
            }
        }
        if signals.take().iter().any(|signal| signal.ends()) {
            if is_asked {
                return Ok(false);
            }
            is_asked = true;
            remotes.iter_mut().for_each(Remote::end);
        }
    }
    Ok(true)
}

/// Merges the traces of all machines. Returns the exit code, and true if there was a trace.
fn merge(args: &RecordArgs, remotes: Vec<Remote>, out: &mut impl Write) -> Result<(u8, bool)> {
    let mut merger =
        MachineMerger::new(out, uuid()?, &read_clocks()).context("cannot write the trace")?;
    let (mut code, mut taken, mut ids) = (0, 0, vec![0]);
    for (index, remote) in remotes.into_iter().enumerate() {
        let host = remote.host.clone();
        let mut failed = |reason: String| {
            eprintln!("ferretto: {host}: {reason}");
            code = code.max(1);
        };
        let (copied, exit, clock) = remote.finish();
        let mut spool = match copied {
            Ok((spool, bytes)) if bytes > 0 => spool,
            Ok(_) => {
                let reason = failure(args, &host, exit);
                failed(reason.unwrap_or_else(|| "nothing was recorded there".to_owned()));
                continue;
            }
            Err(error) => {
                failed(message(&error));
                continue;
            }
        };
        let machine = describe(&host, clock, &mut ids);
        if machine.clocks.is_empty() {
            failed(
                "its clocks could not be compared with the local ones, so its times are not converted; check \
                 that its ferretto is as new as this one"
                    .to_owned(),
            );
        }
        spool.rewind().context("cannot read a temporary file")?;
        match merger.add(&machine, spool) {
            Ok(_) => taken += 1,
            Err(ferretto_edit::EditError::Write(error)) => {
                return Err(error).context("cannot write the trace");
            }
            Err(error) => failed(error.to_string()),
        }
        let exit = u8::try_from(exit.unwrap_or(1)).unwrap_or(1);
        if index == 0 && !args.command.is_empty() {
            code = code.max(exit);
        } else if exit != 0 {
            eprintln!("ferretto: {host}: ferretto returned {exit} there");
            code = code.max(1);
        }
    }
    merger.finish().context("cannot write the trace")?;
    Ok((code, taken > 0))
}

/// Returns the machine for the trace, with a unique id.
fn describe(host: &str, clock: Option<Clock>, ids: &mut Vec<u32>) -> Machine {
    let clock = clock.unwrap_or_else(|| Clock {
        machine: Identity {
            id_hint: host.as_bytes().to_vec(),
            name: host.as_bytes().to_vec(),
        },
        groups: Vec::new(),
    });
    let mut hint = clock.machine.id_hint;
    let mut id = machine_id(&hint);
    while ids.contains(&id) {
        hint.extend(host.as_bytes());
        id = machine_id(&hint);
    }
    ids.push(id);
    Machine {
        id,
        name: clock.machine.name,
        clocks: clock.groups,
    }
}

/// A recorded machine.
#[derive(Debug)]
struct Remote {
    host: String,
    ssh: Child,
    /// The thread that copies the trace to a temporary file.
    copying: JoinHandle<Result<(File, u64)>>,
    clock: ClockLink,
}

impl Remote {
    fn start(args: &RecordArgs, host: &str, part: Part, ending: &PipeWriter) -> Result<Self> {
        let clock = ClockLink::start(args, host)?;
        let mut ssh = start(args, host, part)?;
        let trace = ssh.stdout.take().context("ssh has no output")?;
        let beside = match args.output.parent() {
            Some(folder) if folder.is_dir() => folder.to_owned(),
            _ => std::env::temp_dir(),
        };
        let mut ending = ending.try_clone().context("cannot create a pipe")?;
        let copying = std::thread::Builder::new()
            .name("ferretto-remote".to_owned())
            .spawn(move || {
                let copied = spool(trace, &beside);
                let _ = ending.write_all(&[u8::from(part != Part::Command)]);
                copied
            })
            .context("cannot start a thread")?;
        Ok(Self {
            host: host.to_owned(),
            ssh,
            copying,
            clock,
        })
    }

    /// Ends the recording.
    fn end(&mut self) {
        drop(self.ssh.stdin.take());
    }

    fn kill(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
        self.clock.kill();
    }

    /// Returns the trace and its size, the exit code, and the clock.
    fn finish(mut self) -> (Result<(File, u64)>, Option<i32>, Option<Clock>) {
        let copied = match self.copying.join() {
            Ok(copied) => copied,
            Err(_) => Err(anyhow::anyhow!(
                "copying the trace failed; please report this"
            )),
        };
        drop(self.ssh.stdin.take());
        let code = self.ssh.wait().ok().and_then(|status| status.code());
        (copied, code, self.clock.finish())
    }
}

/// Copies a trace to an unnamed temporary file.
fn spool(mut trace: impl Read, folder: &Path) -> Result<(File, u64)> {
    let file = tempfile::tempfile_in(folder).or_else(|_| tempfile::tempfile());
    let mut file = file.context("cannot create a temporary file for the trace of a machine")?;
    let bytes = io::copy(&mut trace, &mut file).context("cannot store the trace of a machine")?;
    Ok((file, bytes))
}

/// The repeated comparison of a machine's clocks with the local ones.
#[derive(Debug)]
struct Clock {
    machine: Identity,
    groups: Vec<Vec<(Readings, Readings)>>,
}

/// A running comparison of a machine's clocks.
#[derive(Debug)]
struct ClockLink {
    ssh: Child,
    end: Sender<()>,
    result: Receiver<Clock>,
}

impl ClockLink {
    fn start(args: &RecordArgs, host: &str) -> Result<Self> {
        let line = format!("{} machine-clock", quoted(args.host_program.as_ref())?);
        let mut ssh = run_there(host, &line)?;
        let (to, from) = (ssh.stdin.take(), ssh.stdout.take());
        let (to, from) = to.zip(from).context("ssh has no pipes")?;
        let ((end, ended), (sender, result)) = (mpsc::channel(), mpsc::channel());
        std::thread::Builder::new()
            .name("ferretto-clock".to_owned())
            .spawn(move || {
                if let Some((asked, machine)) = Asked::new(to, from) {
                    let groups = compare(asked, &ended);
                    let _ = sender.send(Clock { machine, groups });
                }
            })
            .context("cannot start a thread")?;
        Ok(Self { ssh, end, result })
    }

    fn kill(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }

    fn finish(mut self) -> Option<Clock> {
        let _ = self.end.send(());
        let clock = self.result.recv_timeout(PATIENCE).ok();
        self.kill();
        clock
    }
}

/// Compares clocks until stopped, and once more at the end.
fn compare<W: Write, R: Read>(
    mut asked: Asked<W, R>,
    ended: &Receiver<()>,
) -> Vec<Vec<(Readings, Readings)>> {
    let mut groups = Vec::new();
    loop {
        let rounds: Vec<_> = (0..ROUNDS).map_while(|_| asked.compare()).collect();
        let best = rounds
            .windows(2)
            .filter_map(|pair| Some((error(pair)?, pair)))
            .min_by_key(|(error, _)| *error);
        groups.extend(best.map(|(_, pair)| pair.to_vec()));
        if rounds.len() < ROUNDS {
            return groups;
        }
        match ended.recv_timeout(PAUSE) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                let rounds: Vec<_> = (0..2).map_while(|_| asked.compare()).collect();
                groups.extend(error(&rounds).map(|_| rounds));
                return groups;
            }
        }
    }
}

/// Returns the error bound of a comparison, if it is valid.
fn error(pair: &[(Readings, Readings)]) -> Option<u64> {
    let at = |readings: &Readings| readings.iter().find(|(id, _)| *id == BOOTTIME).map(|r| r.1);
    let exchange = |(client, host): &(Readings, Readings)| {
        Some(Exchange {
            client: at(client)?,
            host: at(host)?,
        })
    };
    let [first, second] = pair else { return None };
    let compared = Comparison::new(exchange(first)?, exchange(second)?)?;
    Some(compared.offset().error)
}
