//! Arguments of these commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ferretto_trace::profile::{By, HeapView, Selection};

use crate::moment::{Moment, Range};
use crate::read::{DEFAULT_TRACE, LimitArgs};

/// The selection of samples.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// Only samples of these processes
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',')]
    pids: Vec<i32>,
    /// Only samples of threads with these names or ids
    #[arg(long = "thread", value_name = "THREAD", value_delimiter = ',')]
    threads: Vec<String>,
    /// Only samples from this time on, as 500ms or 2s after the first event of the trace, or in
    /// nanoseconds of its clock
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Only samples before this time, in the same formats
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    to: Option<Moment>,
    /// Count this event, or this sample type of a pprof profile [default: the first event with
    /// samples; the others are named]
    #[arg(
        long,
        visible_alias = "sample-type",
        value_name = "NAME",
        conflicts_with = "heap"
    )]
    event: Option<String>,
    /// Show where and how long threads waited, from a trace of record --off-cpu
    #[arg(long)]
    off_cpu: bool,
    /// Show the heap: memory not freed, all allocations, or memory at its peak; from a trace of
    /// record --heap
    #[arg(long, value_enum, value_name = "VIEW", num_args = 0..=1, require_equals = true,
          default_missing_value = "leaked", conflicts_with = "off_cpu")]
    pub(super) heap: Option<HeapArg>,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
}

/// A view of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HeapArg {
    /// Allocated and not freed
    Leaked,
    /// All allocations
    Allocated,
    /// Memory in use at its peak
    Peak,
}

impl From<HeapArg> for HeapView {
    fn from(arg: HeapArg) -> Self {
        match arg {
            HeapArg::Leaked => Self::Leaked,
            HeapArg::Allocated => Self::Allocated,
            HeapArg::Peak => Self::Peak,
        }
    }
}

/// Reads `2,5`.
fn parse_dumps(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once(',').and_then(|(first, second)| {
        let number = |text: &str| text.trim().parse().ok().filter(|&number| number > 0);
        Some((number(first)?, number(second)?))
    });
    numbers
        .ok_or_else(|| format!("{text:?} is not a pair of dumps; count them from 1, such as 1,3"))
}

impl SelectionArgs {
    /// Returns the selection of all samples within a range.
    pub(super) fn within(range: Option<Range>) -> Self {
        Self {
            pids: Vec::new(),
            threads: Vec::new(),
            from: range.and_then(Range::from),
            to: range.and_then(Range::to),
            event: None,
            off_cpu: false,
            heap: None,
            limits: LimitArgs::default(),
        }
    }

    /// Returns the chosen event.
    pub(super) fn event(&self) -> Option<&str> {
        self.event.as_deref()
    }

    /// Returns true if the times are relative to the first event.
    pub(super) fn needs_zero(&self) -> bool {
        let times = [self.from, self.to].into_iter().flatten();
        times
            .into_iter()
            .any(|time| matches!(time, Moment::After(_)))
    }

    /// Returns the selection for a trace whose first event is at `zero`.
    pub(super) fn selection(&self, zero: u64) -> Selection {
        let mut selection = Selection::default();
        selection.pids.clone_from(&self.pids);
        selection.threads.clone_from(&self.threads);
        selection.from = self.from.map(|from| from.in_trace(zero));
        selection.to = self.to.map(|to| to.in_trace(zero));
        selection.event.clone_from(&self.event);
        selection.off_cpu = self.off_cpu.then_some(true);
        selection
    }
}

/// The bottom row of a flamegraph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ByArg {
    /// Program, with all its processes
    Program,
    /// Each process
    Process,
    /// Each process and each of its threads
    Thread,
    /// Functions only
    Function,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Program => Self::Program,
            ByArg::Process => Self::Process,
            ByArg::Thread => Self::Thread,
            ByArg::Function => Self::Function,
        }
    }
}

/// Draw the callstacks of a trace as a flamegraph
///
/// Writes an SVG image for a browser: the width of a function is its share of the samples, and its
/// callees are above it. Click to enlarge, Ctrl-F to search.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto record --perf -- make            records callstacks, then
  ferretto flamegraph trace.pftrace         draws them into trace.svg
  ferretto flamegraph -p 4711 --from 2s trace.pftrace
  ferretto flamegraph --heap trace.pftrace  the heap, from record --heap
  ferretto flamegraph --before old.pftrace new.pftrace
                                            red is more than before, blue is less")]
pub(crate) struct FlamegraphArgs {
    /// The trace, which may be compressed by gzip or zstd; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// File for the image; - is standard output [default: next to the trace, with the extension
    /// .svg]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Title above the image
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
    /// Bottom row of the image
    #[arg(long, value_enum, default_value_t = ByArg::Program)]
    pub(super) by: ByArg,
    /// Compare with this trace: colours show growth and shrinkage
    #[arg(long, value_name = "FILE")]
    pub(super) before: Option<PathBuf>,
    /// Compare two heap dumps of the recording, counted from 1: show the changes from the first to
    /// the second
    #[arg(long, value_name = "FIRST,SECOND", value_parser = parse_dumps, requires = "heap", conflicts_with = "before")]
    pub(super) diff: Option<(usize, usize)>,
    /// Invert the graph: innermost functions at the bottom, their callers above
    #[arg(long)]
    pub(super) inverted: bool,
    /// Start at the top: callees are below their callers
    #[arg(long)]
    pub(super) icicle: bool,
    /// Print one JSON object instead, for programs: the functions with the most samples, and the
    /// tree of callstacks
    #[arg(long, conflicts_with_all = ["output", "title", "before", "diff", "icicle"])]
    pub(super) json: bool,
    /// With --json: the number of functions
    #[arg(long, value_name = "N", default_value_t = 30, requires = "json")]
    pub(super) top: usize,
    /// With --json: the levels of the tree
    #[arg(long, value_name = "N", default_value_t = 6, requires = "json")]
    pub(super) depth: usize,
}

/// Print the callstacks of a trace as folded lines
///
/// Each line is a callstack, the outermost function first, with its number of samples (or the
/// nanoseconds of waiting): program;main;work 42. Many tools read this format.
#[derive(Debug, Args)]
pub(crate) struct FoldedArgs {
    /// The trace, which may be compressed by gzip or zstd; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// File for the lines; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: PathBuf,
    /// Root of each callstack
    #[arg(long, value_enum, default_value_t = ByArg::Program)]
    pub(super) by: ByArg,
    /// Mark kernel functions with _[k], inlined ones with _[i], and JIT-compiled ones with _[j]
    #[arg(long)]
    pub(super) annotate: bool,
}

/// Write the callstacks of a trace as a pprof profile
///
/// The file is a gzip-compressed profile.proto, as go tool pprof and other viewers read it.
#[derive(Debug, Args)]
pub(crate) struct PprofArgs {
    /// The trace, which may be compressed by gzip or zstd; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// File for the profile; - is standard output [default: next to the trace, with the extension
    /// .pb.gz]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Write one profile for each process into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "output")]
    pub(super) per_process: Option<PathBuf>,
}
