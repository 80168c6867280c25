//! `ferretto text FILE`.

use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result, bail};
use clap::Args;
use ferretto_text::amount::counted;
use ferretto_text::print::TextPrinter;
use ferretto_trace::TraceReader;
use ferretto_trace::lines::{LinesError, Resolver};

use crate::output::check_standard_output;
use crate::read::{Extent, FileArgs, open};

/// Print a trace as text
///
/// The output is the protobuf text format of a Trace, in the order of the file. Unknown fields are
/// printed by number. With --resolve, prints one line for each event.
#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Print one line for each event instead, in the order of time, with resolved threads, names
    /// and times
    ///
    /// Prints kernel events, track events and callstack samples. Times are seconds of boot time, as
    /// in the kernel's own traces. The file is read twice, so it cannot be standard input.
    #[arg(long)]
    resolve: bool,
}

pub(crate) fn run(args: &TextArgs) -> Result<Extent> {
    if args.resolve {
        return resolve(&args.file);
    }
    let args = &args.file;
    let (name, input) = open(&args.file)?;
    check_standard_output(&[&args.file])?;
    let mut reader = TraceReader::with_limits(input, args.limits.limits());
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
    Ok(Extent::report(&name, &damage))
}

/// Prints one line for each event.
fn resolve(args: &FileArgs) -> Result<Extent> {
    if args.file.as_os_str() == "-" {
        bail!("--resolve reads a trace twice and cannot use standard input; give a file");
    }
    let (name, input) = open(&args.file)?;
    check_standard_output(&[&args.file])?;
    let cannot_read = || format!("cannot read {name}");
    let resolver = Resolver::read(input, args.limits.limits()).with_context(cannot_read)?;
    let (_, input) = open(&args.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = resolver.print(input, &mut out);
    let printed = printed.map_err(|error| match error {
        LinesError::Read(error) => anyhow::Error::from(error).context(cannot_read()),
        LinesError::Write(error) => anyhow::Error::from(error).context("cannot write the text"),
    })?;
    if printed.unordered > 0 {
        eprintln!(
            "ferretto: {} out of order, since sorting exceeds the memory limit; raise it with \
             --max-memory",
            counted(printed.unordered, "line")
        );
    }
    let extent = Extent::report(&name, &printed.damage).and_left_out(&name, printed.left_out);
    Ok(extent.and_health(&name, &printed.health))
}
