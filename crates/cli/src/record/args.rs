//! Arguments of `record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::presets::Presets;
use super::ring::RingArgs;
use super::segments::SegmentArgs;
use crate::duration::parse_duration;
use crate::read::DEFAULT_TRACE;

/// The default number of bytes between two heap samples.
const DEFAULT_HEAP: &str = "4096";

/// Samples a second. The kernel would take ten times as many, but beyond this it is busy copying
/// stacks, and programs do not get on any more.
const MAX_HZ: u32 = 10_000;

/// The default sampling rate on each CPU. Not 100, so that periodic work of 10 ms is neither always
/// nor never sampled.
const DEFAULT_HZ: &str = "99";

/// The sampling rate of `--why`, for the functions of intervals of some milliseconds.
const WHY_HZ: u32 = 499;

/// Record this machine, or a command, into a trace file.
///
/// Without a config it records presets, by default scheduling and system counters, and always
/// processes with their memory and the track events of programs that use a Perfetto SDK. It needs
/// no daemon: service and data sources run inside this process during the recording. Ctrl-C ends
/// the recording with a complete trace. A second Ctrl-C aborts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto record                     10 s of this machine into trace.pftrace
  ferretto record -d 1m -o boot.pftrace
  ferretto record -- make -j8         until make ends
  ferretto record --io --sched        disks besides scheduling
  ferretto record --syscalls=read,write -- ./app
  ferretto record --ring 256MB        the newest 256 MB, written by Ctrl-C or kill -USR1
  ferretto record --segment 1min --keep 60    a file a minute, of the last hour
  ferretto record --perf -- make      with the callstacks of make and what it starts
  ferretto record --why -- ./app      all that ferretto why can use to explain times
  ferretto record --perf=999 -p 4711  with the callstacks of process 4711
  ferretto record --perf --container 3f2a9c0d71be    with the callstacks of a container
  ferretto record --view -- make      and shows it in a browser
  ferretto record --heap -- ./app     with the heap: what ./app allocates and does not free
  ferretto record -c config.pbtxt     any Perfetto config, text or binary
  ferretto record --host ssh://me@box -d 5s    another machine, by ssh
  ferretto record --host ssh://one --host ssh://two    two machines in one trace")]
pub(crate) struct RecordArgs {
    /// Duration, for example 500ms, 10s, 1m30s, 2h, 1d; 0 is until Ctrl-C [default: 10s; with a
    /// COMMAND until it ends]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// File for the trace; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(crate) output: PathBuf,
    /// Record with this Perfetto config, text or binary; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Record callstacks at this rate per second on each CPU, at most 10000 [default: 99]
    ///
    /// Records the COMMAND and its descendants, which needs no privileges; or the processes of -p;
    /// or, as root, the whole machine. View the result with ferretto flamegraph or in the UI.
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_HZ,
          value_parser = rate)]
    pub(crate) perf: Option<u32>,
    /// Record where and how long threads wait, by callstack
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Record the heap, with one sample for this many allocated bytes, such as 4096 or 512k
    /// [default: 4096]
    ///
    /// Records the COMMAND and its descendants, which must be dynamically linked or use
    /// ferretto_heap::Allocator; or the processes of -p, which must have been started with the
    /// client. View the result with ferretto flamegraph --heap.
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_HEAP,
          value_parser = parse_bytes)]
    pub(crate) heap: Option<u64>,
    /// Time between two heap dumps, which show the growth of the heap
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "heap")]
    pub(crate) heap_dumps: Duration,
    /// Record memory that programs map themselves (mmap), too, as a heap called libc.mmap
    ///
    /// This is writable memory that belongs to no file. Allocators other than the C library's and
    /// garbage-collected languages allocate it for their heaps, so their allocations may count
    /// twice.
    #[arg(long, requires = "heap")]
    pub(crate) heap_mmap: bool,
    /// Record callstacks or the heap of these processes, and callstacks of their descendants; with
    /// --syscalls, the summary shows their system calls first
    #[arg(
        short,
        long = "pid",
        value_name = "PID",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub(crate) pids: Vec<i32>,
    /// Print the config of the presets in text form and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Use the running tracing service of this machine (traced) and the data sources connected to
    /// it
    #[arg(long)]
    pub(crate) system: bool,
    /// Record another machine, or the COMMAND there: runs ferretto there through ssh
    ///
    /// The trace is transferred during the recording. Ctrl-C ends the recording on the machine.
    /// Several --host options record several machines into one trace: their clocks are compared
    /// with the local one, the COMMAND runs on the first, and all others are recorded until it
    /// ends.
    #[arg(long = "host", value_name = "ssh://USER@MACHINE", conflicts_with_all = ["system", "config", "print_config"])]
    pub(crate) hosts: Vec<String>,
    /// Path of ferretto on the other machines
    #[arg(
        long,
        value_name = "PATH",
        default_value = "ferretto",
        requires = "hosts"
    )]
    pub(crate) host_program: String,
    /// Print only errors and losses
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print one JSON object after the recording, for programs, and progress and errors as JSON
    /// lines on standard error, where the output of the COMMAND goes, too
    #[arg(long, conflicts_with_all = ["hosts", "print_config", "view"])]
    pub(crate) json: bool,
    /// Show the trace in a browser after the recording, like ferretto view
    #[arg(long, conflicts_with_all = ["print_config", "hosts"])]
    pub(crate) view: bool,
    /// Record until this command ends, including its own track events
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) presets: Presets,
    #[command(flatten)]
    pub(crate) flight: RingArgs,
    #[command(flatten)]
    pub(crate) files: SegmentArgs,
}

/// Parses `4096`, `512k`, `1m`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a number of bytes such as 4096, 64k or 1m");
    let text = text.to_ascii_lowercase();
    let text = text
        .strip_suffix("ib")
        .or(text.strip_suffix('b'))
        .unwrap_or(&text);
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k')) => (&text[..at], 10),
        Some((at, 'm')) => (&text[..at], 20),
        Some((at, 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let bytes: u64 = digits.trim().parse().map_err(|_| wrong())?;
    let limit = 1 << 40;
    match bytes.checked_mul(1 << shift) {
        Some(bytes @ 1..) if bytes <= limit => Ok(bytes),
        _ => Err(wrong()),
    }
}

/// Reads a number of samples a second.
fn rate(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rate @ 1..=MAX_HZ) => Ok(rate),
        _ => Err(format!("expected samples a second, from 1 to {MAX_HZ}")),
    }
}

impl RecordArgs {
    /// Returns true if callstacks are recorded.
    pub(crate) fn profiles(&self) -> bool {
        self.sampling_rate().is_some() || self.samples_waits()
    }

    /// Returns true if data of selected processes is recorded.
    pub(crate) fn selects_processes(&self) -> bool {
        self.profiles() || self.heap.is_some() || self.presets.want_system_calls()
    }

    /// Returns the rate of callstacks of running threads per second.
    pub(crate) fn sampling_rate(&self) -> Option<u32> {
        self.perf.or(self.presets.want_why().then_some(WHY_HZ))
    }

    /// Returns true if callstacks of waits are recorded.
    pub(crate) fn samples_waits(&self) -> bool {
        self.off_cpu || self.presets.want_why()
    }
}
