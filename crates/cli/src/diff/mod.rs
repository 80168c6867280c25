//! `ferretto diff`: the changes between two recordings, or two sets of them.

mod files;
mod json;
mod print;

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::error::ErrorKind;
use clap::{Args, Command};
use ferretto_diff::{Comparison, Limits, Recording, TABLES};

pub(crate) use self::files::expanded;
pub(crate) use self::print::escaped;
use crate::moment::Range;
use crate::profile::{Side, write_changes};
use crate::read::{self, Extent};

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
    /// The recordings before the change; patterns with * and ? are expanded
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
    let mut extent = Extent::Whole;
    let before = recordings(&before, args.before_range, &mut extent)?;
    let after = recordings(&after, args.after_range, &mut extent)?;
    let comparison = Comparison::new(&before, &after, &Limits::default());
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

/// Reads the features of recordings, one after the other.
fn recordings(
    files: &[PathBuf],
    range: Option<Range>,
    extent: &mut Extent,
) -> Result<Vec<Recording>> {
    let mut recordings = Vec::new();
    for file in files {
        let (name, trace, of_file) = read::tables(file, TABLES)?;
        if of_file == Extent::Partly {
            *extent = Extent::Partly;
        }
        let bounds = &trace.tables().trace_bounds;
        let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
        let range = range.map(|range| range.of(start..end, start));
        if range.as_ref().is_some_and(std::ops::Range::is_empty) {
            bail!("{name} has no events in this range");
        }
        recordings.push(Recording::new(&trace, range));
    }
    Ok(recordings)
}
