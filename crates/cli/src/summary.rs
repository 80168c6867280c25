//! `ferretto summary FILE`.

use std::io::{self, Write};

use anyhow::{Context, Result};
use ferretto_trace::summarize_within;

use crate::args::FileArgs;
use crate::print;
use crate::read::{Extent, open};

pub(crate) fn run(args: &FileArgs) -> Result<Extent> {
    let (name, input) = open(&args.file)?;
    let summary = summarize_within(input, args.memory.limits(), |_| Vec::new())
        .with_context(|| format!("cannot read {name}"))?;
    let stdout = io::stdout();
    let width = terminal_width(&stdout);
    let mut out = io::BufWriter::new(anstream::AutoStream::auto(stdout.lock()));
    print::summary(&mut out, &name, &summary, width)?;
    out.flush().context("cannot write the summary")?;
    Ok(Extent::tell(&name, &summary.damage).and_left_out(&name, summary.left_out))
}

/// Columns of the terminal that `stream` is, if it is one.
pub(crate) fn terminal_width(stream: &impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
