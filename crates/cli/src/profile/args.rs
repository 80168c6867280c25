//! The arguments of these commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ferretto_trace::profile::{By, HeapView, Selection};

use crate::duration::parse_duration;
use crate::read::{DEFAULT_TRACE, MemoryArgs};

/// The samples that are selected.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// Only of these processes
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',')]
    pids: Vec<i32>,
    /// Only of threads with these names or numbers
    #[arg(long = "thread", value_name = "THREAD", value_delimiter = ',')]
    threads: Vec<String>,
    /// Not before this time after the start of the trace, for example 500ms or 2s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    from: Option<Duration>,
    /// Only before this time after the start of the trace
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    to: Option<Duration>,
    /// Show where threads waited and for how long, from a trace of record --off-cpu
    #[arg(long)]
    off_cpu: bool,
    /// Show the heap: memory not freed, all allocations, or memory at its peak; from a trace of
    /// record --heap
    #[arg(long, value_enum, value_name = "VIEW", num_args = 0..=1, require_equals = true,
          default_missing_value = "leaked", conflicts_with = "off_cpu")]
    pub(super) heap: Option<HeapArg>,
    #[command(flatten)]
    pub(super) memory: MemoryArgs,
}

/// A view of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HeapArg {
    /// Allocated and not freed
    Leaked,
    /// All that was allocated
    Allocated,
    /// Allocated when that was most
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
    numbers.ok_or_else(|| format!("{text:?} are no two dumps; they are counted from 1, as in 1,3"))
}

impl SelectionArgs {
    pub(super) fn selection(&self) -> Selection {
        let ns = |time: Option<Duration>| {
            time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        let mut selection = Selection::default();
        selection.pids.clone_from(&self.pids);
        selection.threads.clone_from(&self.threads);
        selection.from = ns(self.from);
        selection.to = ns(self.to);
        selection.off_cpu = self.off_cpu.then_some(true);
        selection
    }
}

/// The bottom row of a flamegraph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ByArg {
    /// The name of the program, all its processes together
    Program,
    /// Each process
    Process,
    /// Each process and each of its threads
    Thread,
    /// Functions alone
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
/// Writes an SVG image that a browser shows: the width of a function is its share of the samples,
/// what it called stands above it. A click enlarges, Ctrl-F searches.
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
    /// File for the image; - is standard output [default: beside the trace, ending in .svg]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Title above the image
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
    /// Bottom row of the image
    #[arg(long, value_enum, default_value_t = ByArg::Program)]
    pub(super) by: ByArg,
    /// Compare with this trace: colours show what has grown or shrunk since
    #[arg(long, value_name = "FILE")]
    pub(super) before: Option<PathBuf>,
    /// Compare two dumps of the heap of one recording, counted from 1: the changes from the first
    /// to the second
    #[arg(long, value_name = "FIRST,SECOND", value_parser = parse_dumps, requires = "heap", conflicts_with = "before")]
    pub(super) diff: Option<(usize, usize)>,
    /// Turn it around: the innermost functions at the bottom, their callers above
    #[arg(long)]
    pub(super) inverted: bool,
    /// Begin at the top: callees hang below their callers
    #[arg(long)]
    pub(super) icicle: bool,
}

/// Print the callstacks of a trace as folded lines
///
/// Each line is one callstack, the outermost function first, and how often it was seen (or, of
/// waiting, the nanoseconds): program;main;work 42. Many tools read this.
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
    /// Beginning of each line
    #[arg(long, value_enum, default_value_t = ByArg::Program)]
    pub(super) by: ByArg,
    /// Mark kernel functions with _[k], inlined ones with _[i], those compiled at run time with
    /// _[j]
    #[arg(long)]
    pub(super) annotate: bool,
}

/// Write the callstacks of a trace as a pprof profile
///
/// The file is what go tool pprof and other viewers of that format read: profile.proto, compressed
/// by gzip.
#[derive(Debug, Args)]
pub(crate) struct PprofArgs {
    /// The trace, which may be compressed by gzip or zstd; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// File for the profile; - is standard output [default: beside the trace, ending in .pb.gz]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Write one profile for each process, into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "output")]
    pub(super) per_process: Option<PathBuf>,
}
