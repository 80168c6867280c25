//! `ferretto cut`, `ferretto split` and `ferretto merge`.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use clap::{ArgGroup, Args, Command};
use ferretto_edit::{EditError, Every, Splitter, Taken, Window, extent};
use ferretto_trace::events::{EventReader, Kind};
use ferretto_trace::{Limits, TraceReader};

use crate::duration::parse_duration;
use crate::json;
use crate::moment::Moment;
use crate::output::{self, is_standard, print_written, write_private};
use crate::parts::Parts;
use crate::read::{DEFAULT_TRACE, Extent, LimitArgs, parse_bytes, seekable};

/// Write the part of a trace between two times into another trace
///
/// The part is a complete trace: names, processes, clocks, the running thread of each CPU and open
/// slices are written at its start. A slice that started earlier starts there, and its argument
/// began_ns is the time when it did.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("part").args(["from", "to", "around"]).required(true).multiple(true)))]
#[command(after_help = "\
Examples:
  ferretto cut --from 20s --to 21s            writes a second of trace.pftrace into trace-cut.pftrace
  ferretto cut big.pftrace --around request   writes the first such slice and 100 ms around it")]
pub(crate) struct CutArgs {
    /// The trace; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    file: PathBuf,
    /// Start of the part, as 12.5s after the first event, or in nanoseconds of the trace's clock
    #[arg(long, value_name = "TIME", value_parser = Moment::parse, conflicts_with = "around")]
    from: Option<Moment>,
    /// End of the part, in the same formats
    #[arg(long, value_name = "TIME", value_parser = Moment::parse, conflicts_with = "around")]
    to: Option<Moment>,
    /// Write the first slice of a program with this name
    #[arg(long, value_name = "SLICE-NAME")]
    around: Option<String>,
    /// With --around: the time before and after the slice
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    margin: std::time::Duration,
    /// File for the part [default: the name of the trace with -cut, such as trace-cut.pftrace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Split a trace into several, one after the other
///
/// Each packet is written into one part. Every part is a complete trace, which starts with names,
/// processes, clocks and open slices. The parts are named trace-000.pftrace and so on.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("part").args(["every", "size"]).required(true)))]
pub(crate) struct SplitArgs {
    /// The trace; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    file: PathBuf,
    /// The time of each part, such as 1min; slightly more if no data was read at its end
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    every: Option<std::time::Duration>,
    /// The size of each part, such as 256MB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    size: Option<u64>,
    /// The file from which the names of the parts are derived [default: the trace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Write several traces as one
///
/// Traces of one machine since it was started share its clocks. Those of different machines are
/// related by the time of day. Their writers are kept separate.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The traces, two or more
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File for the merged trace
    #[arg(short, long, value_name = "FILE", default_value = "merged.pftrace")]
    output: PathBuf,
    /// Print one JSON object, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs `ferretto cut`.
pub(crate) fn cut(args: &CutArgs) -> Result<Extent> {
    let (name, mut trace) = seekable(&args.file)?;
    let cannot_read = || format!("cannot read {name}");
    let limits = args.limits.limits();
    let window = match &args.around {
        Some(slice) => around(&mut trace, slice, args.margin, limits).with_context(cannot_read)?,
        None => {
            let whole = extent(&mut trace, limits)
                .map_err(explained)
                .with_context(cannot_read)?;
            let window = Window {
                from: args.from.map_or(whole.from, |it| it.in_trace(whole.from)),
                to: args.to.map_or(whole.to, |it| it.in_trace(whole.from)),
            };
            if window.from > whole.to || window.to < whole.from {
                let empty = EditError::Nothing(whole.from, whole.to);
                return Err(explained(empty)).with_context(|| format!("cannot cut {name}"));
            }
            if window.from > window.to {
                bail!("cannot cut {name}: --from is after --to");
            }
            window
        }
    };
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| derived(&args.file, "-cut"));
    refuse_two_results(args.json, &output)?;
    let (uuid, mut taken) = (uuid()?, None);
    write_private(&output, &[&args.file], |out| {
        taken = Some(ferretto_edit::cut(&mut trace, window, limits, uuid, out).map_err(explained)?);
        Ok(())
    })?;
    let extent = taken
        .as_ref()
        .map_or(Extent::Whole, |taken| report(&name, taken));
    if args.json {
        output::print(json::answer(|all| {
            all.add("input", &name);
            all.add("output", output.display().to_string());
            all.add("from_ns", window.from);
            all.add("to_ns", window.to);
            all.add("packets", taken.map_or(0, |taken| taken.packets));
            all.add("complete", extent == Extent::Whole);
        }))?;
    } else {
        print_written([&output])?;
    }
    Ok(extent)
}

/// Runs `ferretto split`.
pub(crate) fn split(args: &SplitArgs) -> Result<Extent> {
    let every = match (args.every, args.size) {
        (Some(every), _) => Every::Nanoseconds(u64::try_from(every.as_nanos()).unwrap_or(u64::MAX)),
        (None, size) => Every::Bytes(size.unwrap_or(u64::MAX)),
    };
    if matches!(every, Every::Nanoseconds(0) | Every::Bytes(0)) {
        bail!("the time or size of a part must not be 0");
    }
    let (name, mut trace) = seekable(&args.file)?;
    let path = match &args.output {
        Some(output) => output.clone(),
        None => derived(&args.file, ""),
    };
    let mut parts = Parts::new(&path, &[&args.file], None);
    let limits = args.limits.limits();
    let mut splitter = Splitter::new(every, limits, |number, before| parts.next(number, before));
    let cannot_read = || format!("cannot read {name}");
    TraceReader::with_limits(&mut trace, limits)
        .read_all(|packet| splitter.add_names(packet.bytes))
        .with_context(cannot_read)?;
    trace.rewind().with_context(cannot_read)?;
    let mut failed = None;
    let damage = TraceReader::with_limits(trace, limits)
        .try_read_all(|packet| {
            failed = splitter.add(packet.bytes).err();
            failed.is_none()
        })
        .with_context(cannot_read)?;
    if let Some(error) = failed {
        return Err(error).context("cannot write a part");
    }
    let (packets, left_out) = (splitter.packets(), splitter.left_out());
    if packets == 0 {
        bail!("cannot read {name}: the trace has no events");
    }
    let last = splitter.finish().context("cannot write a part")?;
    if let Some((last, _)) = last {
        parts.finish(last).context("cannot write a part")?;
    }
    let taken = Taken {
        packets,
        damage,
        left_out,
    };
    let extent = report(&name, &taken);
    let complete = parts.complete();
    if args.json {
        output::print(json::answer(|all| {
            all.add("input", &name);
            all.name("outputs").list(complete, |json, path| {
                json.string(&path.display().to_string());
            });
            all.add("packets", packets);
            all.add("complete", extent == Extent::Whole);
        }))?;
    } else {
        print_written(complete)?;
    }
    Ok(extent)
}

/// Runs `ferretto merge`.
pub(crate) fn merge(args: &MergeArgs) -> Result<Extent> {
    if args.files.len() < 2 {
        // Options are allowed between files, so the parser cannot check their number.
        let few = "ferretto merge needs at least two traces";
        MergeArgs::augment_args(Command::new("ferretto merge"))
            .error(ErrorKind::TooFewValues, few)
            .exit();
    }
    let limits = args.limits.limits();
    let mut traces = Vec::new();
    let mut names = Vec::new();
    for path in &args.files {
        let (name, mut trace) = seekable(path)?;
        check_start(&mut trace, limits).with_context(|| format!("cannot read {name}"))?;
        names.push(name);
        traces.push(trace);
    }
    let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let stems: Vec<&str> = args
        .files
        .iter()
        .map(|path| {
            path.file_stem()
                .and_then(|it| it.to_str())
                .unwrap_or("machine")
        })
        .collect();
    refuse_two_results(args.json, &args.output)?;
    let (uuid, mut taken) = (uuid()?, Vec::new());
    write_private(&args.output, &inputs, |out| {
        taken = ferretto_edit::merge(&mut traces, &stems, limits, uuid, out).map_err(explained)?;
        Ok(())
    })?;
    let extents = names
        .iter()
        .zip(&taken)
        .map(|(name, taken)| report(name, taken));
    let extents: Vec<Extent> = extents.collect();
    let extent = extents.iter().copied().fold(Extent::Whole, Extent::and);
    if args.json {
        output::print(json::answer(|all| {
            let inputs = names.iter().zip(&taken).zip(&extents);
            all.objects("inputs", inputs, |it, ((name, taken), extent)| {
                it.add("file", name);
                it.add("packets", taken.packets);
                it.add("complete", *extent == Extent::Whole);
            });
            all.add("output", args.output.display().to_string());
            all.add("complete", extent == Extent::Whole);
        }))?;
    } else {
        print_written([&args.output])?;
    }
    Ok(extent)
}

/// Refuses to print an answer among the bytes of a trace.
fn refuse_two_results(json: bool, output: &Path) -> Result<()> {
    if json && is_standard(output) {
        bail!(
            "--json prints its answer on standard output, so the trace needs a file; use -o FILE"
        );
    }
    Ok(())
}

/// Refuses a file that does not start with a packet.
fn check_start(trace: &mut File, limits: Limits) -> Result<()> {
    let mut has_packet = false;
    TraceReader::with_limits(&mut *trace, limits).try_read_all(|_| {
        has_packet = true;
        false
    })?;
    if !has_packet {
        bail!("the trace has no events");
    }
    Ok(trace.rewind()?)
}

/// Finds the first slice with a name. Returns its time with a margin.
fn around(
    trace: &mut (impl Read + Seek),
    name: &str,
    margin: std::time::Duration,
    limits: Limits,
) -> Result<Window> {
    trace.rewind()?;
    let mut reader = EventReader::with_limits(limits);
    let mut packets = TraceReader::with_limits(trace, limits);
    let margin = u64::try_from(margin.as_nanos()).unwrap_or(u64::MAX);
    // The slice's start and track, and the number of open slices inside it.
    let mut found: Option<(u64, u64, usize)> = None;
    let mut end = None;
    packets.try_read_all(|packet| {
        let Some(event) = reader.add(packet.bytes) else {
            return true;
        };
        match (&mut found, event.kind, event.time) {
            (None, Kind::Begin, Some(time)) if event.name.as_deref() == Some(name) => {
                found = Some((time, event.track, 0));
            }
            (Some((_, track, depth)), Kind::Begin, _) if event.track == *track => *depth += 1,
            (Some((_, track, depth)), Kind::End, time) if event.track == *track => {
                match depth.checked_sub(1) {
                    Some(less) => *depth = less,
                    None => end = time,
                }
            }
            _ => {}
        }
        end.is_none()
    })?;
    let Some((begin, ..)) = found else {
        bail!("no program wrote a slice named {name}");
    };
    Ok(Window {
        from: begin.saturating_sub(margin),
        to: end.map_or(u64::MAX, |end| end.saturating_add(margin)),
    })
}

/// Returns the path of the trace with an ending after its stem.
fn derived(path: &Path, ending: &str) -> PathBuf {
    let path = if is_standard(path) {
        Path::new(DEFAULT_TRACE)
    } else {
        path
    };
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(ending);
    let extension = path.extension().unwrap_or("pftrace".as_ref());
    name.push(".");
    name.push(extension);
    path.with_file_name(name)
}

/// Converts an error so that its cause is printed only once.
fn explained(error: EditError) -> anyhow::Error {
    match error {
        EditError::Read(error) => error.into(),
        EditError::Write(error) => error.into(),
        EditError::Nothing(..) => anyhow::anyhow!("{error}"),
    }
}

fn report(name: &str, taken: &Taken) -> Extent {
    Extent::report(name, &taken.damage).and_left_out(name, taken.left_out)
}

/// Returns a random id for a new trace.
pub(crate) fn uuid() -> Result<[u8; 16]> {
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid[..], rustix::rand::GetRandomFlags::empty())
        .context("cannot create an id for the trace")?;
    Ok(uuid)
}
