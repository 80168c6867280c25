//! `ferretto json`: a trace in the format of Chrome's, which many tools read.

mod args;
mod carry;
mod flows;
mod lanes;
mod tracks;
mod writer;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Cursor, Seek as _};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ferretto_edit::{Every, Splitter};
use ferretto_format::disk::RequestEvents;
use ferretto_proto::fields::{ftrace_event, ftrace_event_bundle, trace_packet};
use ferretto_tables::schema::TableId;
use ferretto_tables::{Format, Health, ImportError, Options, Trace};
use ferretto_text::terminal::shown;
use ferretto_trace::{HealthReader, Limits, TraceReader};
use ferretto_wire::{Field, Fields};

use self::writer::Writer;
use crate::output;
use crate::read::{
    DEFAULT_TRACE, Extent, UnpackedArgs, content_format, explained, parse_bytes, parse_limits,
    seekable,
};

/// Write a trace in Chrome's JSON format
///
/// Writes slices with their arguments, instants, counters, flows, the threads that ran on each CPU,
/// and the names of processes and threads. Times are microseconds of the trace's clock. Reads the
/// same formats as ferretto view. Large traces are read in parts, so memory use does not depend on
/// their size; files of other programs must fit in memory. Parts follow the order of the file: an
/// event whose begin and end are in different parts may be shown from or up to their border, which
/// a remark says. A larger --max-memory makes the parts larger; by default, a trace up to a
/// hundredth of the machine's memory is one part.
#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// The trace; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    file: PathBuf,
    /// File for the result; - is standard output [default: the name of the trace with .json, such
    /// as trace.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Size of the parts in which a trace is read; their tables take about ten times as much
    /// [default: what the memory limit allows, at least 4M]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, hide = true)]
    part: Option<u64>,
    /// Memory limit, for example 512M or 2G; what does not fit is left out and reported [default:
    /// half of the memory of the machine or of its control group]
    #[arg(long, value_name = "SIZE", value_parser = parse_limits)]
    max_memory: Option<Limits>,
    #[command(flatten)]
    unpacked: UnpackedArgs,
}

impl JsonArgs {
    fn limits(&self) -> Limits {
        let default = || match Options::default().memory {
            usize::MAX => Limits::default(),
            half => Limits::memory(half as u64),
        };
        self.unpacked
            .within(self.max_memory.unwrap_or_else(default))
    }

    /// Returns the size of the parts in which a trace is read.
    fn part_bytes(&self) -> u64 {
        let fits = self.limits().memory_bytes() / TABLES_PER_BYTE;
        self.part.unwrap_or(fits.max(MIN_PART))
    }

    /// Returns the file for the result.
    fn output(&self) -> PathBuf {
        match &self.output {
            Some(output) => output.clone(),
            None if output::is_standard(&self.file) => PathBuf::from("stdin.json"),
            // Another program's file may have this name, too.
            None if self.file.extension().is_some_and(|it| it == "json") => {
                self.file.with_added_extension("json")
            }
            None => self.file.with_extension("json"),
        }
    }
}

/// The least size of the parts in which a trace is read, unless another is asked for.
const MIN_PART: u64 = 4 << 20;
/// The memory limit for each byte of a part: its tables take ten bytes, which are a third, and some
/// kinds of events take more.
const TABLES_PER_BYTE: u64 = 48;

/// The data of a trace that is missing in the result.
#[derive(Debug, Default)]
struct Missing {
    remarks: BTreeSet<String>,
    health: Health,
}

/// Runs `ferretto json`.
pub(crate) fn run(args: &JsonArgs) -> Result<Extent> {
    let (name, mut input) = seekable(&args.file)?;
    let limits = args.limits();
    let content = content_format(&mut input, limits);
    let format = content
        .with_context(|| format!("cannot read {name}"))?
        .format;
    if format.is_none() {
        let unknown = explained(ImportError::UnknownFormat { file: None });
        return Err(unknown).with_context(|| format!("cannot read {name}"));
    }
    let is_packets = matches!(format, Some(Format::Proto));
    let output = args.output();
    let mut extent = Extent::Whole;
    output::write(&output, &[&args.file], |out| {
        let mut writer = Writer::new(out, limits.memory_bytes() / 4);
        let mut missing = Missing::default();
        writer.begin()?;
        if is_packets {
            extent = packets(&name, input, args, &mut writer, &mut missing)?
        } else {
            let options = options(limits);
            part(&name, input, &options, &mut writer, &mut missing)?;
            if !missing.remarks.is_empty() {
                extent = Extent::Partly;
            }
        }
        writer.finish()?;
        for remark in missing.remarks {
            eprintln!("ferretto: {}: {}", shown(&name), shown(&remark));
        }
        extent = extent.and_health(&name, &missing.health);
        Ok(())
    })?;
    output::print_written([&output])?;
    Ok(extent)
}

/// Writes a trace of packets, in parts if it is too large for one. Each part is a complete trace
/// that repeats everything begun before it; repeated slices are joined.
fn packets(
    name: &str,
    mut input: File,
    args: &JsonArgs,
    writer: &mut Writer<'_>,
    missing: &mut Missing,
) -> Result<Extent> {
    let limits = args.limits();
    let survey = Survey::of(&mut input, limits).with_context(|| format!("cannot read {name}"))?;
    writer.set_request_events(survey.requests);
    let whole = Options {
        request_events: Some(survey.requests),
        ..options(limits)
    };
    if survey.is_intact && survey.bytes <= args.part_bytes() {
        part(name, input, &whole, writer, missing)?;
        return Ok(Extent::Whole);
    }
    let options = Options {
        is_part: true,
        ..whole
    };
    let (mut failed, mut is_full, mut parts) = (None, false, 1_u64);
    let splitting = |_, before: Option<Vec<u8>>| {
        if let Some(before) = before {
            parts += 1;
            failed = part(name, Cursor::new(before), &options, writer, missing).err();
            is_full = writer.is_full();
        }
        if failed.is_some() || is_full {
            return Err(io::ErrorKind::Other.into());
        }
        Ok(Vec::new())
    };
    // The tables of a part take a third, and the state between parts a quarter.
    let of_state = Limits::memory(limits.memory_bytes() / 4);
    let of_state = of_state.with_decompressed(limits.decompressed_bytes());
    let mut splitter = Splitter::new(Every::Bytes(args.part_bytes()), of_state, splitting);
    let mut health = HealthReader::new(of_state);
    let mut stopped = None;
    let damage = TraceReader::with_limits(input, limits)
        .try_read_all(|packet| {
            health.add(packet.bytes);
            stopped = splitter.add(packet.bytes).err();
            stopped.is_none()
        })
        .with_context(|| format!("cannot read {name}"))?;
    let left_out = splitter.left_out();
    let last = if stopped.is_some() {
        drop(splitter);
        None
    } else {
        splitter.finish()?
    };
    if let Some(error) = failed {
        return Err(error);
    }
    if is_full {
        let what = "the open slices, tracks and counters take too much memory; the rest of the file \
                    is left out, and --max-memory allows more";
        missing.remarks.insert(what.to_owned());
    } else if let Some(error) = stopped {
        return Err(error.into());
    }
    if let Some((last, _)) = last {
        part(name, Cursor::new(last), &options, writer, missing)?;
    }
    if parts > 1 {
        let what = format!(
            "read in {parts} parts: events that are in two of them may be shown from or up to their \
             border; a larger --max-memory makes fewer parts"
        );
        missing.remarks.insert(what);
    }
    let dropped = writer.dropped_flows();
    if dropped > 0 {
        let what = format!(
            "flows that are incomplete if they continued, since too many were open: {dropped}"
        );
        missing.remarks.insert(what);
    }
    // Parts repeat what they continue; the packets of the file count once.
    let mut health = health.finish();
    health.add_missing(&missing.health);
    missing.health = health;
    let extent = Extent::report(name, &damage).and_left_out(name, left_out);
    Ok(if is_full { Extent::Partly } else { extent })
}

/// A first look at a trace.
struct Survey {
    /// The events that count as requests to disks: a part may lack those that the others have.
    requests: RequestEvents,
    /// The size of all packets.
    bytes: u64,
    /// False if a part of the file cannot be read.
    is_intact: bool,
}

impl Survey {
    /// Reads a trace, and rewinds it.
    fn of(input: &mut File, limits: Limits) -> Result<Self> {
        let mut bytes = 0;
        let mut requests = RequestEvents::Accounting;
        let damage = TraceReader::with_limits(&mut *input, limits).read_all(|packet| {
            bytes += packet.bytes.len() as u64;
            if requests == RequestEvents::Accounting && has_request_of_driver(packet.bytes) {
                requests = RequestEvents::Driver;
            }
        })?;
        input.rewind()?;
        Ok(Self {
            requests,
            bytes,
            is_intact: damage.is_none(),
        })
    }
}

/// Returns true if a packet has an event of a disk's driver that begins a request.
fn has_request_of_driver(packet: &[u8]) -> bool {
    let is_of_driver = |event: Field<'_>| {
        let issue = ftrace_event::BLOCK_RQ_ISSUE;
        event.number == ftrace_event_bundle::EVENT
            && event
                .as_bytes()
                .is_some_and(|event| Fields::find(issue, event).is_some())
    };
    let bundle = Fields::find(trace_packet::FTRACE_EVENTS, packet);
    let bundle = bundle.and_then(|bundle| bundle.as_bytes());
    let mut fields = Fields::new(bundle.unwrap_or_default()).map_while(Result::ok);
    fields.any(is_of_driver)
}

/// Returns the options of reading a whole file.
fn options(limits: Limits) -> Options {
    Options {
        memory: usize::try_from(limits.memory_bytes() / 3).unwrap_or(usize::MAX),
        limits,
        ..Options::for_tables(TABLES)
    }
}

/// Writes a whole file, or a part of a trace.
fn part(
    name: &str,
    input: impl io::Read + Send,
    options: &Options,
    writer: &mut Writer<'_>,
    missing: &mut Missing,
) -> Result<()> {
    let trace = Trace::read(input, options).map_err(explained);
    let trace = trace.with_context(|| format!("cannot read {name}"))?;
    missing.remarks.extend(trace.remarks().iter().cloned());
    missing.health.add_all(&trace.health());
    writer.part(&trace)
}

/// The tables that are written.
const TABLES: &[TableId] = &[
    TableId::args,
    TableId::counter,
    TableId::cpu,
    TableId::flow,
    TableId::sched_slice,
    TableId::slice,
];
