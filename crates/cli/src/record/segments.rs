//! Recordings in several consecutive files.

use std::io::{self, PipeWriter, Write};
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use clap::Args;
use ferretto_edit::{Every, Splitter};
use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::WriteFlushMode;
use ferretto_trace::{Limits, TraceReader};

use crate::duration::parse_duration;
use crate::output::is_standard;
use crate::parts::Parts;
use crate::read::parse_bytes;

/// The period of writes, and of flushes at most, of a config that gives none.
const WRITE_PERIOD_MS: u32 = 5000;

/// The options for sizes of files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Size of files")]
pub(crate) struct SegmentArgs {
    /// Start another file after this time or size, such as 1min or 256MB
    ///
    /// The files are called trace-000.pftrace and so on. No data is lost between them, and each can
    /// be opened alone: it starts with names, processes, clocks and everything begun before.
    #[arg(long, value_name = "TIME|SIZE", value_parser = parse_every, conflicts_with_all = ["ring", "hosts", "view"])]
    pub(super) segment: Option<Every>,
    /// With --segment: keep only this many newest files
    #[arg(long, value_name = "N", requires = "segment", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keep: Option<u32>,
    /// End the recording at this size, such as 1GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with_all = ["ring", "hosts"])]
    pub(super) until_size: Option<u64>,
}

impl SegmentArgs {
    /// Sets the limit and the writing of segments in the config.
    ///
    /// # Errors
    ///
    /// Fails if the config does not stream into a file.
    pub(super) fn limit(&self, config: &mut TraceConfig) -> Result<()> {
        let is_streamed = config.write_into_file == Some(true);
        if self.until_size.is_some() {
            if !is_streamed {
                bail!("--until-size needs a config with write_into_file: true");
            }
            config.max_file_size_bytes = self.until_size;
        }
        let Some(segment) = self.segment else {
            return Ok(());
        };
        if !is_streamed {
            bail!(
                "--segment needs a config with write_into_file: true; otherwise divide the file \
                 after the recording with ferretto split"
            );
        }
        let Every::Nanoseconds(length) = segment else {
            return Ok(());
        };
        // Segments end after a flush, in which events and the names that belong to them are written
        // together, so there are four in each.
        let quarter = u32::try_from(length / 4_000_000).unwrap_or(u32::MAX);
        if quarter < WRITE_PERIOD_MS && config.write_flush_mode.is_none() {
            config.write_flush_mode = Some(WriteFlushMode::WRITE_FLUSH_DISABLED);
            config.flush_period_ms = Some(quarter);
        }
        let period = config.file_write_period_ms.filter(|period| *period > 0);
        let period = period.unwrap_or(WRITE_PERIOD_MS);
        config.file_write_period_ms = Some(period.min(quarter));
        Ok(())
    }
}

fn parse_every(text: &str) -> Result<Every, String> {
    let every = match parse_bytes(text) {
        Ok(bytes) => Every::Bytes(bytes),
        Err(_) => {
            let time = parse_duration(text)
                .map_err(|_| "expected a time or a size, such as 1min or 256MB".to_owned())?;
            Every::Nanoseconds(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        }
    };
    match every {
        Every::Bytes(..1_000_000) => Err("a file must have at least 1MB".to_owned()),
        Every::Nanoseconds(..1_000_000_000) => Err("a file must cover at least 1s".to_owned()),
        every => Ok(every),
    }
}

/// Splits a written trace into files, on a thread of its own.
#[derive(Debug)]
pub(super) struct Segments {
    pipe: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Segments {
    /// Starts splitting into files named after `path`.
    ///
    /// # Errors
    ///
    /// Fails if files cannot be written there.
    pub(super) fn start(path: &Path, every: Every, keep: Option<u32>) -> Result<Self> {
        if is_standard(path) {
            bail!("--segment writes files; give their name with -o FILE");
        }
        let mut parts = Parts::new(path, &[], keep.map(|keep| keep as usize));
        if parts.are_busy() {
            bail!(
                "another recording writes the parts of {}; choose another file with -o",
                path.display()
            );
        }
        // Errors of the first file are reported at once.
        let first = parts.next(0, None).context("cannot write a part")?;
        let (reader, writer) = io::pipe().context("cannot create a pipe")?;
        let run = move || {
            let mut first = Some(first);
            let mut splitter =
                Splitter::new(every, Limits::default(), |number, before| {
                    match first.take() {
                        Some(first) => Ok(first),
                        None => parts.next(number, before),
                    }
                });
            let mut failed = None;
            let read = TraceReader::new(reader).try_read_all(|packet| {
                failed = splitter.add(packet.bytes).err();
                failed.is_none()
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let last = splitter.finish()?;
            read.map_err(io::Error::other)?;
            last.map_or(Ok(()), |(last, _)| parts.finish(last))
        };
        let thread = std::thread::Builder::new()
            .name("ferretto-parts".to_owned())
            .spawn(run)
            .context("cannot start a thread")?;
        Ok(Self {
            pipe: Some(writer),
            thread: Some(thread),
        })
    }

    /// Waits for the thread, and returns its error.
    fn end(&mut self) -> io::Result<()> {
        self.pipe = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other(
                "splitting the trace crashed; please report this",
            )),
        }
    }
}

impl Write for Segments {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        match pipe.write(bytes) {
            // The thread has ended, and returns the reason.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.end()?;
                Err(error)
            }
            written => written,
        }
    }

    /// Ends the last file.
    fn flush(&mut self) -> io::Result<()> {
        self.end()
    }
}
