//! The arguments of `record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::presets::Presets;
use super::ring::RingArgs;
use super::segments::SegmentArgs;
use crate::duration::parse_duration;
use crate::read::DEFAULT_TRACE;

/// Bytes between two samples of the heap when nobody says otherwise.
const DEFAULT_HEAP: &str = "4096";

/// Samples a second. The kernel would take ten times as many, but beyond this it is busy copying
/// stacks, and programs do not get on any more.
const MAX_HZ: u32 = 10_000;

/// The default number of samples a second on each CPU. Not 100: work that a program or the kernel
/// does every ten milliseconds would then always be hit, or always be missed.
const DEFAULT_HZ: &str = "99";

/// Record this machine, or a command, into a trace file.
///
/// Without a config it records what presets name, by default scheduling and system counters, always
/// with processes and their memory and the track events of programs that use a Perfetto SDK. It
/// needs no daemon: service and data sources run inside this process for as long as it records.
/// Ctrl-C ends the recording; the trace is complete then. A second Ctrl-C gives up waiting.
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
  ferretto record --perf=999 -p 4711  with the callstacks of process 4711
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
    /// Record what this Perfetto config says, text or binary; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Record callstacks, so many times a second on each CPU, at most 10000 [default: 99]
    ///
    /// Those of the COMMAND and of what it starts, for which no privileges are needed, or of
    /// processes given by -p, or else of the whole machine, as root. Look at them with ferretto
    /// flamegraph, or in the UI.
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_HZ,
          value_parser = rate)]
    pub(crate) perf: Option<u32>,
    /// Record where threads wait, and for how long, by callstack
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Record the heap: one sample for so many bytes allocated, such as 4096 or 512k [default:
    /// 4096]
    ///
    /// Of the COMMAND and of what it starts, which must be linked dynamically or bring the
    /// allocator ferretto_heap::Allocator, or of programs that were started with the client, given
    /// by -p. Look at it with ferretto flamegraph --heap.
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_HEAP,
          value_parser = parse_bytes)]
    pub(crate) heap: Option<u64>,
    /// Time between two dumps of the heap, which show how it grows
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "heap")]
    pub(crate) heap_dumps: Duration,
    /// Record what programs map themselves (mmap), too, as a heap called libc.mmap
    ///
    /// That is memory that is no file's and can be written. Other allocators than the C library's,
    /// and languages with garbage collection, get theirs so, and what they make of it is counted as
    /// theirs, too.
    #[arg(long, requires = "heap")]
    pub(crate) heap_mmap: bool,
    /// Record callstacks, or the heap, of these processes, and callstacks of what they start
    #[arg(
        short,
        long = "pid",
        value_name = "PID",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub(crate) pids: Vec<i32>,
    /// Print the config that the presets stand for, in text form, and end
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Use the tracing service that runs on this machine (traced) and the data sources connected to
    /// it
    #[arg(long)]
    pub(crate) system: bool,
    /// Record another machine, or the COMMAND there: runs ferretto there by ssh
    ///
    /// The trace comes here as it is recorded. Ctrl-C has the machine end the recording. Named
    /// several times, with several machines, it makes one trace of all: their clocks are compared
    /// with the one here, the COMMAND runs on the first, and all others are recorded until it ends.
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
    /// Show the trace in a browser when it is recorded, as ferretto view does
    #[arg(long, conflicts_with_all = ["print_config", "hosts"])]
    pub(crate) view: bool,
    /// Record until this command ends, its own track events included
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) presets: Presets,
    #[command(flatten)]
    pub(crate) flight: RingArgs,
    #[command(flatten)]
    pub(crate) files: SegmentArgs,
}

/// Reads `4096`, `512k`, `1m`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no number of bytes; take 4096, 64k or 1m, for example");
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
    /// Returns true if callstacks are to be recorded.
    pub(crate) fn profiles(&self) -> bool {
        self.perf.is_some() || self.off_cpu
    }
}
