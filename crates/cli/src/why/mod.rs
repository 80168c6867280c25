//! `ferretto why`: the causes of the time of a thread.

mod compare;
mod json;
mod phrases;
mod print;
mod select;

use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::num::NonZero;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use ferretto_tables::{Options, WantedArgs};
use ferretto_why::{Shares, TABLES, Why};

use crate::moment::Range;
use crate::output;
use crate::read::{self, DEFAULT_TRACE, Extent};

/// Explain why a thread took so long
///
/// Each nanosecond of the interval gets exactly one cause: running, interrupts, waiting for a CPU
/// and behind which thread, or waiting for a lock, a disk, a timer or another thread. The time of
/// a wait that a thread ended is explained by what that thread did meanwhile, and so on. Needs a
/// trace with scheduling; record --why records all it can use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto why trace.pftrace                        the busiest thread
  ferretto why --slice request trace.pftrace        the longest slice of this name
  ferretto why --slice request --worst 10 trace.pftrace
                                                    the ten longest, and what makes them long
  ferretto why -p 4711 --range 2s..2.5s trace.pftrace")]
pub(crate) struct WhyArgs {
    /// The trace, in any supported format, possibly compressed; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    file: PathBuf,
    /// Explain the longest slice with this name, or the slice with this id, as in SQL
    #[arg(long, value_name = "NAME|ID")]
    slice: Option<String>,
    /// Explain this many of the longest slices of the name, and compare the longest 1 % with those
    /// around the median
    #[arg(long, value_name = "N", requires = "slice", num_args = 0..=1, default_missing_value = "10")]
    worst: Option<NonZero<usize>>,
    /// Explain the thread with this name or id
    #[arg(long, value_name = "THREAD", conflicts_with = "slice")]
    thread: Option<String>,
    /// Explain the busiest thread of this process
    #[arg(short, long, value_name = "PID")]
    pid: Option<i64>,
    /// Explain the part in this time, or select the slices in it, such as 500ms..2s after the first
    /// event of the trace, or in nanoseconds of its clock; either end may be left out
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse)]
    range: Option<Range>,
    /// Print one JSON object with times in nanoseconds, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &WhyArgs) -> Result<Extent> {
    let options = Options {
        tables: TABLES,
        args: WantedArgs::OfLocks,
        ..Options::default()
    };
    let (name, trace, extent) = read::tables_with(&args.file, &options)?;
    // The program ends afterwards: to free all parts one by one would only take time.
    let trace = ManuallyDrop::new(trace);
    let why = ManuallyDrop::new(Why::new(&trace));
    if !why.recorded().switches {
        bail!("{name} has no scheduling; record it with ferretto record --why");
    }
    if args.json {
        output::print(answer(&why, args)?)?;
        return Ok(extent);
    }
    if let (Some(slice), Some(worst)) = (&args.slice, args.worst) {
        let comparison = compare::Comparison::new(&why, slice, worst.get(), args)?;
        let text = comparison.text(&why);
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| print::missing(&mut out, &why))
            .context("cannot write the comparison")?;
        return Ok(extent);
    }
    let selected = select::select(&why, args)?;
    let explanation = why.explain(selected.thread, selected.interval.clone());
    let shares = Shares::new([&explanation]);
    let mut out = io::BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    print::explanation(&mut out, &why, &selected, &explanation, &shares)
        .and_then(|()| out.flush())
        .context("cannot write the explanation")?;
    Ok(extent)
}

/// Returns the explanation or the comparison that the command line selects as one line.
///
/// # Errors
///
/// Fails if the trace does not have the thread or the slice.
pub(crate) fn answer(why: &Why<'_>, args: &WhyArgs) -> Result<String> {
    if let (Some(slice), Some(worst)) = (&args.slice, args.worst) {
        return Ok(compare::Comparison::new(why, slice, worst.get(), args)?.json(why));
    }
    let selected = select::select(why, args)?;
    let explanation = why.explain(selected.thread, selected.interval.clone());
    let shares = Shares::new([&explanation]);
    Ok(json::explanation(why, &selected, &explanation, &shares))
}
