//! A trace on its way to standard output or into several files, summarised in passing.

use std::io::{self, PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use ferretto_trace::{Summary, summarize_and_complete};

use super::command::CommandPid;
use super::symbols;
use crate::session::Signals;

/// The thread that passes the trace on.
#[derive(Debug)]
pub(super) struct Tee {
    thread: JoinHandle<(Option<io::Error>, Result<Summary>)>,
    /// Closes when the thread ends.
    ended: UnixStream,
    /// The name of the output in messages.
    to: &'static str,
}

impl Tee {
    /// Passes on what comes through `pipe` to `out`, which is called `to`, until its other end is
    /// closed, and flushes it then. If that fails, the pipe is closed, which the service notices.
    pub(super) fn start(
        pipe: PipeReader,
        command: CommandPid,
        to: &'static str,
        out: impl Write + Send + 'static,
    ) -> Result<Self> {
        let (ended, ending) = UnixStream::pair().context("cannot make a socket")?;
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
                more = [symbols::packets(modules), command.packet()].concat();
                more.clone()
            });
            // Bytes that the summary did not read still belong to the trace.
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

    /// Returns the bytes passed on, once the pipe is closed; `None` if a signal to end came before.
    pub(super) fn finish(self, signals: &mut Signals) -> Result<Option<Summary>> {
        // The reader may take its time.
        while !signals.wait_or(&self.ended, None) {
            if signals.take().iter().any(|signal| signal.ends()) {
                return Ok(None);
            }
        }
        match self.thread.join() {
            Ok((Some(error), _)) => {
                Err(error).with_context(|| format!("cannot write to {}", self.to))
            }
            Ok((None, summary)) => summary.context("the trace cannot be read").map(Some),
            Err(_) => bail!("passing the trace on failed; please report this"),
        }
    }
}

/// Reads a pipe; everything read has been written.
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
