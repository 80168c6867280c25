//! `ferretto import`: converts files of other programs to traces.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ferretto_foreign::{ImportError, Options, Report};
use ferretto_trace::{Limits, Unpacking};

use crate::conversion::explained;
use crate::edit::uuid;
use crate::output::{is_standard, write_private};
use crate::read::{Extent, UnpackedArgs, content_format, seekable};
use ferretto_text::amount::counted;
use ferretto_text::terminal::shown;

/// Convert a file of another program to a trace
///
/// Reads perf.data of perf record, the output of perf script, Chrome's JSON, collapsed stacks and
/// pprof profiles, and detects the format by content. Samples become callstacks, slices and
/// counters become tracks, with the names of processes and threads. At the end it lists the parts
/// that the trace format cannot express. Memory use does not depend on the size of the file: events
/// are sorted in a temporary file.
///
/// To name functions that perf.data lists only by address, use ferretto symbolize.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto import perf.data                        a trace of it in perf.pftrace
  perf script | ferretto import - -o p.pftrace     of the text that perf prints
  ferretto import server.json client.json          server.pftrace and client.pftrace")]
pub(crate) struct ImportArgs {
    /// The files; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File for the trace; - is standard output [default: the name of the file with .pftrace, such
    /// as perf.pftrace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not read this machine's files, since the recording is of another machine
    #[arg(long)]
    no_system: bool,
    #[command(flatten)]
    unpacked: UnpackedArgs,
}

/// Runs `ferretto import`.
pub(crate) fn run(args: &ImportArgs) -> Result<Extent> {
    if args.files.len() > 1 && args.output.is_some() {
        bail!(
            "several files become several traces: remove -o, and combine the traces with ferretto merge"
        );
    }
    let mut extent = Extent::Whole;
    for file in &args.files {
        let output = match &args.output {
            Some(output) => output.clone(),
            None if is_standard(file) => PathBuf::from("stdin.pftrace"),
            None if file.extension().is_some_and(|it| it == "pftrace") => {
                // Another program's file may have this name, too.
                file.with_added_extension("pftrace")
            }
            None => file.with_extension("pftrace"),
        };
        extent = extent.and(one(file, &output, args)?);
    }
    Ok(extent)
}

fn one(path: &Path, output: &Path, args: &ImportArgs) -> Result<Extent> {
    let (name, input) = seekable(path)?;
    let limits = args.unpacked.within(Limits::default());
    let mut input = unpacked(input, &name, limits)?;
    let options = Options {
        uuid: Some(uuid()?),
        reads_files: !args.no_system,
        decompressed: limits.decompressed_bytes(),
        ..Options::default()
    };
    let mut done = None;
    let mut import = |out: &mut dyn io::Write| -> Result<()> {
        let imported = ferretto_foreign::import(&mut input, &options, out);
        let failed = imported.is_err();
        done = Some(imported);
        // The error is reported below.
        if failed {
            bail!("nothing to write")
        } else {
            Ok(())
        }
    };
    let inputs = [path];
    let written = write_private(output, &inputs, |out| import(out));
    let report = done.transpose().map_err(explained);
    let report = report.with_context(|| format!("cannot import {name}"))?;
    written.with_context(|| format!("cannot import {name}"))?;
    let Some(report) = report else {
        return Ok(Extent::Whole);
    };
    tell(&name, output, &report);
    Ok(Extent::of_conversion(&name, &report))
}

/// Returns the file, or an unnamed temporary file with its decompressed content, if that can be
/// imported.
fn unpacked(mut file: File, name: &str, limits: Limits) -> Result<File> {
    let content =
        content_format(&mut file, limits).with_context(|| format!("cannot read {name}"))?;
    if content.is_compressed && !content.format.is_some_and(ferretto_foreign::is_imported) {
        let refused = explained(ImportError::Format(content.format));
        return Err(refused).with_context(|| format!("cannot import {name}"));
    }
    if !content.is_compressed {
        return Ok(file);
    }
    let mut copy = tempfile::tempfile().context("cannot create a temporary file")?;
    io::copy(&mut Unpacking::new(file, limits), &mut copy)
        .with_context(|| format!("cannot read {name}"))?;
    copy.rewind()?;
    Ok(copy)
}

/// Reports the result for a file.
fn tell(name: &str, output: &Path, report: &Report) {
    let (name, format) = (shown(name), report.format.as_str());
    let (count, content) = match (report.samples, report.events) {
        (0, events) => (events, counted(events, "event")),
        (samples, _) => (samples, counted(samples, "sample")),
    };
    let verb = if count == 1 { "is" } else { "are" };
    if !is_standard(output) {
        let output = output.display().to_string();
        eprintln!(
            "ferretto: {name} ({format}): {content} {verb} in {}",
            shown(&output)
        );
    }
}
