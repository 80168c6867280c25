//! Traces as text: one line per event in the order of time, with threads, names and times resolved.
//! Events are kernel events, track events and callstack samples.
//!
//! ```text
//!             make-4711    [002]   1234.000001000: sched_waking: comm="cc" pid=4712 prio=120
//! ```

mod described;
mod kernel;
mod order;
mod syscalls;
mod tasks;

use std::io::{self, Read, Write};

use ferretto_format::health::Health;
use ferretto_proto::fields::trace_packet as field;
use ferretto_wire::Fields;

use self::kernel::Kernel;
use self::order::Order;
use self::syscalls::Calls;
use self::tasks::Tasks;
use crate::events::{Event, EventReader, Kind, Number, Tracks};
use crate::health::HealthReader;
use crate::limits::Limits;
use crate::profile::{Profile, Sample, SampleReader};
use crate::reader::{Damage, ReadError, TraceReader};
use crate::summary::ThreadNames;

/// The maximum number of printed functions of a callstack.
const MAX_FUNCTIONS: usize = 64;
/// The maximum number of printed arguments of an event.
const MAX_ARGUMENTS: usize = 32;

/// The usual length of a line, in bytes.
const LINE: usize = 120;

/// An error of printing a trace.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// Reading the trace failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Writing the text failed.
    #[error("writing failed")]
    Write(#[from] io::Error),
}

/// The result of printing a trace: counts of printed and of omitted events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Printed {
    /// The number of printed lines.
    pub lines: u64,
    /// The number of lines that follow later ones, because the memory limit did not allow more
    /// sorting.
    pub unordered: u64,
    /// The part of the file that could not be read.
    pub damage: Damage,
    /// The number of entries left out because of the memory limit.
    pub left_out: u64,
    /// The data that has no line, or no time in it.
    pub health: Health,
}

/// The names in a trace. They are read before printing because symbols are at the end of a trace.
#[derive(Debug)]
pub struct Resolver {
    profile: Profile,
    calls: Calls,
    limits: Limits,
}

impl Resolver {
    /// Reads the names in a trace.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or if the input is no trace at all.
    pub fn read(input: impl Read, limits: Limits) -> Result<Self, ReadError> {
        // Shared by this profile, the samples of the second pass, and the lines being sorted.
        let limits = limits.half().half();
        let mut packets = TraceReader::with_limits(input, limits);
        let mut samples = SampleReader::new(&limits.budget());
        let mut names = ThreadNames::new(&limits.budget());
        let mut calls = Calls::default();
        packets.read_all(|packet| {
            calls.add(packet.bytes);
            samples.add(packet.bytes, |_| {});
            names.add(packet.bytes);
        })?;
        let (decoder, clocks) = samples.finish();
        let profile = Profile::new(decoder, clocks, names.finish());
        Ok(Self {
            profile,
            calls,
            limits,
        })
    }

    /// Prints the same trace, which is read a second time.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, if the input is not a trace, or if writing fails.
    pub fn print(&self, input: impl Read, out: &mut impl Write) -> Result<Printed, LinesError> {
        let mut packets = TraceReader::with_limits(input, self.limits);
        let mut printer = Printer {
            tasks: Tasks::new(&self.profile),
            profile: &self.profile,
            // Numbers callstacks the same way as in the first pass.
            samples: SampleReader::new(&self.limits.budget()),
            events: EventReader::without_check_of_slices(self.limits),
            kernel: Kernel::new(&self.calls),
            order: Order::new(self.limits, out),
        };
        let mut health = HealthReader::new(self.limits);
        let damage = packets.try_read_all(|packet| {
            let left_out = health.add(packet.bytes);
            printer.packet(packet.bytes, left_out.is_some());
            printer.order.is_writable()
        })?;
        let (lines, unordered) = printer.order.finish()?;
        Ok(Printed {
            lines,
            unordered,
            damage,
            left_out: self.profile.left_out(),
            health: health.finish(),
        })
    }
}

struct Printer<'a, W> {
    tasks: Tasks<'a>,
    profile: &'a Profile,
    samples: SampleReader,
    events: EventReader,
    kernel: Kernel<'a>,
    order: Order<'a, W>,
}

impl<W: Write> Printer<'_, W> {
    fn packet(&mut self, packet: &[u8], is_left_out: bool) {
        let (mut machine, mut is_event, mut is_sample, mut bundle) = (0, false, false, None);
        let (mut pid, mut sequence) = (0, 0);
        for part in Fields::new(packet).map_while(Result::ok) {
            match part.number {
                field::MACHINE_ID => machine = part.as_u32().unwrap_or(0),
                field::TRUSTED_PID => pid = part.as_u64().unwrap_or(0) as i32,
                field::TRUSTED_PACKET_SEQUENCE_ID => sequence = part.as_u32().unwrap_or(0),
                field::FTRACE_EVENTS => bundle = part.as_bytes(),
                _ => {}
            }
            is_event |= is_of_events(part.number);
            is_sample |= is_of_samples(part.number);
        }
        if let Some(bundle) = bundle {
            let (tasks, order) = (&self.tasks, &mut self.order);
            let clocks = self.samples.clocks();
            let of = (machine, sequence);
            self.kernel.bundle(of, bundle, clocks, |event| {
                let mut line = Vec::with_capacity(LINE);
                tasks.task(&mut line, machine, event.tid, Some(event.cpu));
                tasks::time(&mut line, event.time);
                line.extend_from_slice(event.text);
                order.add(event.time, line);
            });
        }
        if is_event
            && let Some(event) = self.events.add(packet)
            && (!is_left_out || event.time.is_none())
        {
            let line = event_line(&self.tasks, self.events.tracks(), machine, pid, &event);
            self.order.add(event.time.unwrap_or(0), line);
        }
        if is_sample && let Some(sample) = self.samples.add(packet, |_| {}) {
            let line = sample_line(&self.tasks, self.profile, &sample);
            self.order.add(sample.time, line);
        }
    }
}

/// Returns true if a packet with this field may contain track events or data they refer to.
fn is_of_events(number: u32) -> bool {
    matches!(
        number,
        field::TRACK_EVENT | field::TRACK_DESCRIPTOR | field::THREAD_DESCRIPTOR
    ) || is_of_sequence(number)
}

/// Returns true if a packet with this field may contain callstack samples or data they refer to.
fn is_of_samples(number: u32) -> bool {
    matches!(
        number,
        field::PERF_SAMPLE | field::STACK_SAMPLE | field::MODULE_SYMBOLS
    ) || is_of_sequence(number)
}

fn is_of_sequence(number: u32) -> bool {
    matches!(
        number,
        field::INTERNED_DATA
            | field::TRACE_PACKET_DEFAULTS
            | field::CLOCK_SNAPSHOT
            | field::PREVIOUS_PACKET_DROPPED
            | field::INCREMENTAL_STATE_CLEARED
    )
}

fn event_line(
    tasks: &Tasks<'_>,
    tracks: &Tracks,
    machine: u32,
    pid: i32,
    event: &Event,
) -> Vec<u8> {
    let track = tracks.get(event.track);
    let thread = track
        .and_then(|track| track.thread)
        .map(|(_, tid)| tid as i32);
    let mut line = Vec::with_capacity(LINE);
    tasks.task(&mut line, machine, thread.unwrap_or(pid), None);
    match event.time {
        Some(time) => tasks::time(&mut line, time),
        None => line.extend_from_slice(b"     ?: "),
    }
    let kind = match event.kind {
        kind if kind.begins_slice() => "begin",
        kind if kind.ends_slice() => "end",
        kind if kind.is_instant() => "instant",
        kind if kind.is_complete_slice() => "slice",
        Kind::Counter => "counter",
        Kind::State => "state",
        _ => "event",
    };
    line.extend_from_slice(kind.as_bytes());
    line.push(b':');
    if let Some(name) = &event.name {
        line.push(b' ');
        tasks::push(&mut line, name);
    }
    if let Some(duration) = event.duration {
        let _ = write!(line, " of {duration} ns");
    }
    if thread.is_none() && event.track != 0 {
        line.extend_from_slice(b" on ");
        tasks::push(&mut line, &tracks.path(event.track));
    }
    if let Some(value) = event.value {
        push_number(&mut line, value);
    }
    if !event.categories.is_empty() {
        line.extend_from_slice(b" [");
        tasks::push(&mut line, &event.categories.join(","));
        line.push(b']');
    }
    for (name, value) in event.arguments.iter().take(MAX_ARGUMENTS) {
        line.push(b' ');
        tasks::push(&mut line, name);
        line.push(b'=');
        tasks::push_value(&mut line, value, 0);
    }
    for (track, value) in &event.extra_values {
        line.extend_from_slice(b" (");
        tasks::push(&mut line, &tracks.path(*track));
        push_number(&mut line, *value);
        line.push(b')');
    }
    line
}

/// Appends the value of a counter.
fn push_number(line: &mut Vec<u8>, value: Number) {
    // Writing to a vector cannot fail.
    let _ = match value {
        Number::Integer(value) => write!(line, " = {value}"),
        Number::Double(value) => write!(line, " = {value}"),
    };
}

fn sample_line(tasks: &Tasks<'_>, profile: &Profile, sample: &Sample) -> Vec<u8> {
    let mut line = Vec::new();
    let tid = sample.tid.or(sample.pid).unwrap_or(0);
    tasks.task(&mut line, sample.machine, tid, sample.cpu);
    tasks::time(&mut line, sample.time);
    let event = profile.session(sample.session).map(|it| &*it.event.name);
    tasks::push(
        &mut line,
        event.filter(|name| !name.is_empty()).unwrap_or("sample"),
    );
    line.push(b':');
    if let Some(weight) = sample.weight {
        line.extend_from_slice(format!(" {weight}").as_bytes());
    }
    let Some(stack) = sample.stack else {
        line.extend_from_slice(b" (no callstack)");
        return line;
    };
    let functions: Vec<_> = profile.functions(stack).collect();
    for (depth, function) in functions.iter().rev().enumerate() {
        line.extend_from_slice(if depth == 0 { b" " } else { b" < " });
        if depth == MAX_FUNCTIONS {
            line.extend_from_slice("…".as_bytes());
            break;
        }
        let function = profile.function(function.function);
        tasks::push(&mut line, function.map_or("?", |function| &function.name));
    }
    line
}
