//! `ferretto summary FILE`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use ferretto_trace::{Limits, summarize_within};

use crate::read::{Extent, FileArgs, Input, Watched, open_any};
use crate::{output, print};

/// Show the contents and losses of a trace
///
/// Shows size, duration, the recorded command with its slices by name, events by data source,
/// context switches by CPU, the processes with the most CPU time, counters, and losses with the
/// settings that prevent them.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Print one JSON object with times in nanoseconds, for programs
    #[arg(long)]
    json: bool,
}

/// Reads a trace, and returns its summary as one line, for programs. Fails when `watch`, which gets
/// the number of bytes that were read, returns false.
pub(crate) fn answer(path: &Path, name: &str, watch: impl FnMut(u64) -> bool) -> Result<String> {
    let limits = Limits::default();
    let packets = Watched::new(open_any(path, limits)?.packets, watch);
    let summary = summarize_within(packets, limits, |_| Vec::new())
        .with_context(|| format!("cannot read {name}"))?;
    Ok(print::json::summary(name, &summary))
}

pub(crate) fn run(args: &SummaryArgs) -> Result<Extent> {
    let limits = args.file.limits.limits();
    let Input {
        name,
        packets,
        extent: imported,
    } = open_any(&args.file.file, limits)?;
    let summary = summarize_within(packets, limits, |_| Vec::new())
        .with_context(|| format!("cannot read {name}"))?;
    let extent = || {
        Extent::report(&name, &summary.damage)
            .and_left_out(&name, summary.left_out)
            .and_health(&name, &summary.health)
            .and(imported)
    };
    if args.json {
        output::print(print::json::summary(&name, &summary))?;
        return Ok(extent());
    }
    let stdout = io::stdout();
    let width = terminal_width(&stdout);
    let mut out = io::BufWriter::new(anstream::AutoStream::auto(stdout.lock()));
    print::summary(&mut out, &name, &summary, width)?;
    out.flush().context("cannot write the summary")?;
    Ok(extent())
}

/// Returns the width of `stream` if it is a terminal.
pub(crate) fn terminal_width(stream: &impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
