//! `ferretto diff`: the changes between two recordings, or two sets of them.

mod files;
mod json;
mod print;
mod reading;

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::error::ErrorKind;
use clap::{Args, Command};
use ferretto_diff::{Comparison, Limits};

pub(crate) use self::files::expanded;
pub(crate) use self::print::escaped;
use self::reading::Source;
use crate::moment::Range;
use crate::profile::{Side, write_changes};
use crate::read::Extent;

/// Show what changed between two recordings, or two sets of recordings
///
/// Compares time on CPUs by process, thread and function, the causes of the duration of a recorded
/// command, waits, system calls and slices, and lists what changed, the largest change first. A
/// change is listed if it is large enough to matter and unlikely to be chance. Several recordings
/// of each tell more than one; record --why records all it can use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto diff before.pftrace after.pftrace
  ferretto diff --before 'old-*.pftrace' --after 'new-*.pftrace'
  ferretto diff trace.pftrace --before-range ..10s --after-range 20s..
  ferretto diff --flamegraph changes.svg before.pftrace after.pftrace")]
pub(crate) struct DiffArgs {
    /// The two recordings, or the one whose ranges are compared
    #[arg(value_name = "FILE", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// The recordings before the change; patterns with *, ? and [] are expanded
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "files", requires = "after")]
    before: Vec<PathBuf>,
    /// The recordings after the change
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "files", requires = "before")]
    after: Vec<PathBuf>,
    /// Compare this time of the recordings before, such as 500ms..2s after the first event, or in
    /// nanoseconds of the clock; either end may be left out
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse)]
    before_range: Option<Range>,
    /// Compare this time of the recordings after
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse)]
    after_range: Option<Range>,
    /// Print one JSON object with times in nanoseconds, for programs
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown, for a pull request
    #[arg(long)]
    markdown: bool,
    /// Draw the callstacks after the change to this file, with the functions red that have a
    /// greater share than before, and those blue that have a smaller one. A name that ends with
    /// .html makes it a page
    #[arg(long, value_name = "FILE")]
    flamegraph: Option<PathBuf>,
}

pub(crate) fn run(args: &DiffArgs) -> Result<Extent> {
    let (before, after) = match args.files.as_slice() {
        [before, after] => (vec![before.clone()], vec![after.clone()]),
        [both] if args.before_range.is_some() && args.after_range.is_some() => {
            (vec![both.clone()], vec![both.clone()])
        }
        [_] => wrong_usage(
            "name two recordings, or two ranges of one with --before-range and --after-range",
        ),
        _ if args.before.is_empty() => {
            wrong_usage("name two recordings, or sets with --before and --after")
        }
        _ => (expanded(&args.before)?, expanded(&args.after)?),
    };
    if let Some(output) = &args.flamegraph {
        let side = |files, range| Side { files, range };
        write_changes(
            side(&before, args.before_range),
            side(&after, args.after_range),
            output,
        )?;
    }
    let all: Vec<Source<'_>> = sources(&before, args.before_range)
        .chain(sources(&after, args.after_range))
        .collect();
    let (all, extent) = reading::recordings(&all)?;
    let (before, after) = all.split_at(before.len());
    let comparison = Comparison::new(before, after, &Limits::default());
    let mut out = io::stdout().lock();
    let text = if args.json {
        json::comparison(&comparison)
    } else if args.markdown {
        print::markdown(&comparison)
    } else {
        print::text(&comparison)
    };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("cannot write the comparison")?;
    Ok(extent)
}

/// Returns files with the range of them to compare.
fn sources(files: &[PathBuf], range: Option<Range>) -> impl Iterator<Item = Source<'_>> {
    files.iter().map(move |file| Source { file, range })
}

/// Ends the program because of the number of its arguments, which the parser cannot check.
fn wrong_usage(sentence: &str) -> ! {
    DiffArgs::augment_args(Command::new("ferretto diff"))
        .error(ErrorKind::TooFewValues, sentence)
        .exit()
}

/// Returns a comparison as one line, for programs.
pub(crate) fn answer(comparison: &Comparison) -> String {
    json::comparison(comparison)
}
