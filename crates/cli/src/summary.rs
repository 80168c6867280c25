//! `ferretto summary FILE`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::args::FileArgs;
use crate::print;

pub(crate) fn run(args: &FileArgs) -> Result<()> {
    let (name, input) = open(&args.file)?;
    let summary =
        ferretto_trace::summarize(input).with_context(|| format!("cannot read {name}"))?;
    let stdout = io::stdout();
    let width = terminal_width(&stdout);
    let mut out = io::BufWriter::new(anstream::AutoStream::auto(stdout.lock()));
    print::summary(&mut out, &name, &summary, width)?;
    out.flush().context("cannot write the summary")
}

/// The name to show and the bytes of a trace; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<(String, Box<dyn Read>)> {
    if path.as_os_str() == "-" {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        anyhow::bail!("cannot open {name}: it is a directory");
    }
    Ok((name, Box::new(file)))
}

/// Columns of the terminal that `stream` is, if it is one.
pub(crate) fn terminal_width(stream: &impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
