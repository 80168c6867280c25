//! Forwards a trace to standard output or into several files, and summarises it.

use std::io::{self, PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ferretto_trace::{Summary, summarize_and_complete};

use super::command::RanCommand;
use super::symbols;
use crate::session::Signals;

/// Returns the error of an output that takes no more. A closed pipe ends a recording early, so it
/// is reported, unlike for commands that only print.
fn cannot_write(error: io::Error, to: &str) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => {
            anyhow::anyhow!("the recording ended early: the reader of {to} closed it")
        }
        _ => anyhow::Error::new(error).context(format!("cannot write to {to}")),
    }
}

/// The thread that forwards the trace.
#[derive(Debug)]
pub(super) struct Tee {
    thread: JoinHandle<(Option<io::Error>, Result<Summary>)>,
    /// A socket that closes when the thread ends.
    ended: UnixStream,
    /// The name of the output in messages.
    to: &'static str,
}

impl Tee {
    /// Forwards data from `pipe` to `out`, called `to`, until the other end is closed, and flushes
    /// it. On errors, closes the pipe, which ends the session.
    pub(super) fn start(
        pipe: PipeReader,
        command: RanCommand,
        to: &'static str,
        out: impl Write + Send + 'static,
    ) -> Result<Self> {
        let (ended, ending) = UnixStream::pair().context("cannot create a socket")?;
        let run = move || {
            // Closed with the thread.
            let _ending = ending;
            let mut passing = Passing {
                pipe,
                out,
                failed: None,
            };
            let mut more = Vec::new();
            let summary = summarize_and_complete(&mut passing, |modules| {
                more = [symbols::packets(modules), command.packets()].concat();
                more.clone()
            });
            // Forwards bytes that the summary did not read, too.
            let rest = io::copy(&mut passing, &mut io::sink())
                .and_then(|_| passing.out.write_all(&more))
                .and_then(|()| passing.out.flush());
            (
                passing.failed.take().or(rest.err()),
                summary.map_err(anyhow::Error::from),
            )
        };
        let thread = std::thread::Builder::new()
            .name("ferretto-output".to_owned())
            .spawn(run);
        Ok(Self {
            thread: thread.context("cannot start a thread")?,
            ended,
            to,
        })
    }

    /// Returns the summary once everything is forwarded; `None` if a signal to end came first.
    pub(super) fn finish(self, signals: &mut Signals) -> Result<Option<Summary>> {
        // The reader may take its time.
        while !signals.wait_or(&self.ended, None) {
            if signals.take().iter().any(|signal| signal.ends()) {
                return Ok(None);
            }
        }
        self.join().map(Some)
    }

    /// Returns the summary once all parts are complete; `None` if signals to end came first, the
    /// second one of a recording that went well.
    pub(super) fn complete_parts(
        self,
        signals: &mut Signals,
        patience: Option<Duration>,
    ) -> Result<Option<Summary>> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut is_asked_again = patience.is_some();
        while !signals.wait_or(&self.ended, deadline) {
            let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            let is_asked = signals.take().iter().any(|signal| signal.ends());
            if is_late || (is_asked && is_asked_again) {
                eprintln!("ferretto: the last part is incomplete; its name ends in .part");
                return Ok(None);
            }
            if is_asked {
                eprintln!(
                    "ferretto: completing the last part; another Ctrl-C leaves it incomplete"
                );
                is_asked_again = true;
            }
        }
        self.join().map(Some)
    }

    /// Returns the error with which forwarding ended, if it ends before a signal or a deadline.
    pub(super) fn into_error(self, signals: &Signals, patience: Duration) -> Option<anyhow::Error> {
        if !signals.wait_or(&self.ended, Some(Instant::now() + patience)) {
            return None;
        }
        let (failed, _) = self.thread.join().ok()?;
        Some(cannot_write(failed?, self.to))
    }

    fn join(self) -> Result<Summary> {
        match self.thread.join() {
            Ok((Some(error), _)) => Err(cannot_write(error, self.to)),
            Ok((None, summary)) => summary.context("the trace cannot be read"),
            Err(_) => bail!("forwarding the trace crashed; please report this"),
        }
    }
}

/// Reads a pipe, and writes everything it has read.
struct Passing<W> {
    pipe: PipeReader,
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> Read for Passing<W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Ok(0);
        }
        let count = self.pipe.read(buffer)?;
        let written = self.out.write_all(&buffer[..count]);
        if let Err(error) = written {
            self.failed = Some(error);
            return Ok(0);
        }
        Ok(count)
    }
}
