//! `ferretto text FILE`.

use std::io::{self, Write};

use anyhow::{Context, Result};
use ferretto_trace::TraceReader;
use ferretto_trace::text::TextPrinter;

use crate::args::FileArgs;
use crate::output::check_standard_output;
use crate::read::{Extent, open};

pub(crate) fn run(args: &FileArgs) -> Result<Extent> {
    let (name, input) = open(&args.file)?;
    check_standard_output(&[&args.file])?;
    let mut reader = TraceReader::with_limits(input, args.memory.limits());
    let mut printer = TextPrinter::new(io::stdout().lock());
    let mut written = Ok(());
    let read = reader.try_read_all(|packet| {
        written = printer.packet(packet.bytes);
        written.is_ok()
    });
    let written = written.and_then(|()| printer.flush());
    written.context("cannot write the text")?;
    printer
        .into_inner()
        .flush()
        .context("cannot write the text")?;
    let damage = read.with_context(|| format!("cannot read {name}"))?;
    Ok(Extent::tell(&name, &damage))
}
