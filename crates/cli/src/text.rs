//! `ferretto text FILE`.

use std::io::{self, Write};

use anyhow::{Context, Result};
use ferretto_trace::TraceReader;
use ferretto_trace::text::TextPrinter;

use crate::args::FileArgs;
use crate::errors;
use crate::output::check_standard_output;
use crate::summary::open;

pub(crate) fn run(args: &FileArgs) -> Result<()> {
    let (name, input) = open(&args.file)?;
    check_standard_output(&[&args.file])?;
    let mut reader = TraceReader::new(input);
    let mut printer = TextPrinter::new(io::stdout().lock());
    let mut damaged = 0u64;
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => printer
                .packet(packet.bytes)
                .context("cannot write the text")?,
            Ok(None) => break,
            Err(error) if error.is_recoverable() => {
                damaged += 1;
                eprintln!("ferretto: {name}: {}", errors::message(&error.into()));
            }
            Err(error) => {
                // What stands before the damage is worth having.
                printer.flush().context("cannot write the text")?;
                return Err(error).with_context(|| format!("cannot read {name}"));
            }
        }
    }
    printer.flush().context("cannot write the text")?;
    printer
        .into_inner()
        .flush()
        .context("cannot write the text")?;
    if let Some(truncated) = reader.truncated() {
        let offset = truncated.offset;
        eprintln!("ferretto: {name} ends inside a packet that begins at byte {offset}");
    }
    anyhow::ensure!(
        damaged == 0,
        "{damaged} compressed packets of {name} could not be read"
    );
    Ok(())
}
