//! Converts events in Chrome's JSON to track events.

mod args;
mod names;
mod tracks;

use std::borrow::Cow;
use std::io::{Read, Seek};

use crate::Format;
use crate::json::{Broken, Event, Id, Json, NoEvent, Number, Order, Part, Ranked, Reader, Scope};
use ferretto_format::Fnv1a;
use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_proto::fields::track_event::legacy_event;
use ferretto_proto::fields::{trace_packet, track_event};
use ferretto_wire::Encoder;

use self::names::Names;
use self::tracks::{Thread, Tracks};
use crate::packets::report::Report;
use crate::packets::sorter::Sorter;
use crate::packets::writer::Writer;
use crate::packets::{ImportError, Options, pieces};

/// The sequence of the events.
const SEQUENCE: u32 = 2;

/// Types of track events.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Imports a file.
pub(crate) fn import<R: Read + Seek>(
    input: R,
    options: &Options,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut chrome = Chrome {
        writer,
        report: Report::new(Format::Json),
        names: Names::default(),
        tracks: Tracks::default(),
        has_begun: false,
        without_phase: 0,
    };
    let mut sorter = Queue {
        order: Order::default(),
        sorter: Sorter::new(options.memory),
    };
    let mut reader = Reader::default();
    let mut broken = None;
    pieces(input, |bytes| {
        let mut failed = Ok(());
        let read = reader.push(bytes, |part| {
            if failed.is_ok() {
                failed = chrome.take(&mut sorter, part);
            }
        });
        // The events before the damage are kept.
        broken = broken.or(read.err());
        failed
    })?;
    let mut failed = Ok(());
    let end = reader.finish(|part| {
        if failed.is_ok() {
            failed = chrome.take(&mut sorter, part);
        }
    });
    failed?;
    let end = broken.map_or(end, Err);
    sorter.finish(|ts, bytes| chrome.event(ts, bytes))?;
    if chrome.report.events == 0 && chrome.without_phase > 0 && end.is_ok() {
        let what = "an array of objects that are not events of a trace";
        return Err(ImportError::Broken(what.to_owned()));
    }
    match end {
        Err(broken) if chrome.report.events == 0 => Err(ImportError::Broken(broken.to_string())),
        // Reported with its offset.
        Err(Broken::InEvent(_)) => Ok(chrome.report),
        Err(broken) => {
            let what = format!("damaged end of the file ({broken})");
            chrome.report.losses.add(&what);
            chrome.report.is_damaged = true;
            Ok(chrome.report)
        }
        Ok(()) => Ok(chrome.report),
    }
}

struct Chrome<'a, 'w> {
    writer: &'a mut Writer<'w>,
    report: Report,
    names: Names,
    tracks: Tracks,
    has_begun: bool,
    /// The number of objects that are not events.
    without_phase: u64,
}

/// Events that wait until all are known.
#[derive(Debug)]
struct Queue {
    order: Order,
    sorter: Sorter,
}

impl Queue {
    fn push(&mut self, event: &Event<'_>, offset: u64, bytes: &[u8]) -> Result<(), ImportError> {
        let sorter = &mut self.sorter;
        let push = |event: Ranked<'_>| sorter.push((event.ts, event.rank), event.bytes);
        self.order.add(event, offset, bytes, push)
    }

    fn finish(
        mut self,
        each: impl FnMut(i64, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let sorter = &mut self.sorter;
        self.order
            .finish(|event| sorter.push((event.ts, event.rank), event.bytes))?;
        self.sorter.finish(each)
    }
}

impl Chrome<'_, '_> {
    /// Handles a part of the file: an event goes to the sorter.
    fn take(&mut self, sorter: &mut Queue, part: Part<'_>) -> Result<(), ImportError> {
        match part {
            Part::Event(offset, bytes) => match Event::parse(bytes, &mut Vec::new()) {
                Ok(event) if event.ts < 0 => self.report.losses.add("events before time 0"),
                Ok(event) => return sorter.push(&event, offset, bytes),
                Err(NoEvent::Empty) => {}
                Err(why) => {
                    self.without_phase += u64::from(why == NoEvent::NoPhase);
                    self.report.losses.add(&format!("events with {why}"));
                }
            },
            Part::Unterminated(offset) => {
                let what = format!("events without an end (the first at byte {offset})");
                self.report.losses.add(&what);
                self.report.is_damaged = true;
            }
            Part::Unread(key) => self.report.losses.add(&format!("lists of {key}")),
            Part::SystemLine(line) if line.starts_with('#') => {}
            Part::SystemLine(_) => self.report.losses.add("kernel events in systrace format"),
            Part::NoEvent(_) => self.report.losses.add("values that are not events"),
            Part::Metadata(_) => self.report.losses.add("metadata objects"),
            Part::DisplayTimeUnit => {}
        }
        Ok(())
    }

    /// Converts an event. Events come in the order of time.
    fn event(&mut self, ts: i64, bytes: &[u8]) -> Result<(), ImportError> {
        let mut spare = Vec::new();
        let Ok(event) = Event::parse(bytes, &mut spare) else {
            return Ok(());
        };
        let ts = ts as u64;
        let thread = self.tracks.thread(&event);
        match event.phase {
            b'B' => {
                self.tracks.begin(thread);
                let track = self.thread_track(ts, thread)?;
                self.slice(ts, track, BEGIN, &event, event.thread_ts)?;
            }
            b'E' => {
                self.tracks.end(thread);
                let track = self.thread_track(ts, thread)?;
                self.slice(ts, track, END, &event, event.thread_ts)?;
            }
            b'X' => {
                let Some(dur) = event.dur.filter(|dur| *dur >= 0) else {
                    self.report
                        .losses
                        .add("slices of phase X without a duration");
                    return Ok(());
                };
                let end = ts.saturating_add(dur as u64);
                let lane = self.tracks.complete(thread, ts, end);
                if lane > 0 {
                    let what =
                        "slices that overlap others of their thread, moved to tracks of their own";
                    self.report.losses.add(what);
                }
                let mut track = self.thread_track(ts, thread)?;
                if lane > 0 {
                    track = self.tracks.overlapping(thread, lane, ts, self.writer)?;
                }
                self.slice(ts, track, BEGIN, &event, event.thread_ts)?;
                let thread_end = event.thread_ts.zip(event.thread_dur);
                let thread_end = thread_end.map(|(ts, dur)| ts.saturating_add(dur));
                let last = Event {
                    args: None,
                    ..event
                };
                self.slice(end, track, END, &last, thread_end)?;
            }
            b'i' | b'I' | b'R' => self.instant(ts, thread, &event)?,
            b'b' | b'e' | b'n' => self.asynchronous(ts, thread, &event)?,
            b's' | b't' | b'f' => self.flow(ts, thread, &event)?,
            b'C' => self.counters(ts, thread, &event)?,
            b'M' => return self.name(ts, thread, &event),
            phase => {
                let phase = char::from(phase);
                self.report.losses.add(&format!("events of phase {phase}"));
                return Ok(());
            }
        }
        self.report.events += 1;
        Ok(())
    }

    fn thread_track(&mut self, ts: u64, thread: Thread) -> Result<u64, ImportError> {
        self.tracks.describe_thread(thread, None, ts, self.writer)
    }

    /// Writes a track event.
    fn packet(
        &mut self,
        ts: u64,
        write: impl FnOnce(&mut Encoder<'_, Vec<u8>>, &mut Names),
    ) -> Result<(), ImportError> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let is_new = self.names.restart_if_full() || is_first;
        let mut message = Vec::new();
        write(&mut Encoder::new(&mut message), &mut self.names);
        let names = &mut self.names;
        self.writer.packet(SEQUENCE, |packet| {
            packet.varint(trace_packet::TIMESTAMP, ts);
            let flags = match is_new {
                true => INCREMENTAL_STATE_CLEARED | NEEDS_INCREMENTAL_STATE,
                false => NEEDS_INCREMENTAL_STATE,
            };
            packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
            names.new_entries().write_to(packet);
            packet.bytes(trace_packet::TRACK_EVENT, &message);
        })
    }

    /// Writes the beginning or end of a slice, or an instant.
    fn slice(
        &mut self,
        ts: u64,
        track: u64,
        kind: u64,
        event: &Event<'_>,
        thread_ts: Option<i64>,
    ) -> Result<(), ImportError> {
        let flow = event.bind_id.as_ref().map(Id::flow);
        self.packet(ts, |out, names| {
            out.varint(track_event::TYPE, kind);
            out.varint(track_event::TRACK_UUID, track);
            names_of(out, names, event, kind != END);
            if let Some(time) = thread_ts {
                out.int(track_event::THREAD_TIME_ABSOLUTE_US, time / 1000);
            }
            args::write(out, names, event);
            if let (Some(flow), true) = (flow, kind != END) {
                out.nested(track_event::LEGACY_EVENT, |legacy| {
                    legacy.varint(legacy_event::BIND_ID, flow);
                    let direction = u64::from(event.flows_in) | u64::from(event.flows_out) << 1;
                    legacy.varint(legacy_event::FLOW_DIRECTION, direction);
                });
            }
        })
    }

    fn instant(&mut self, ts: u64, thread: Thread, event: &Event<'_>) -> Result<(), ImportError> {
        let track = match event.scope {
            Scope::Thread if event.tid.is_some() => self.thread_track(ts, thread)?,
            Scope::Process if event.pid.is_some() => {
                self.tracks
                    .describe_process(thread.pid, None, ts, self.writer)?
            }
            Scope::Global => self.tracks.global(ts, self.writer)?,
            _ => {
                self.report
                    .losses
                    .add("instants without a thread, process or known scope");
                return Ok(());
            }
        };
        self.slice(ts, track, INSTANT, event, None)
    }

    /// Writes an event in the legacy form of Chrome's own traces.
    fn legacy(
        &mut self,
        ts: u64,
        thread: Thread,
        event: &Event<'_>,
        more: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
    ) -> Result<(), ImportError> {
        self.packet(ts, |out, names| {
            names_of(out, names, event, true);
            args::write(out, names, event);
            out.nested(track_event::LEGACY_EVENT, |legacy| {
                legacy.varint(legacy_event::PHASE, event.phase.into());
                more(legacy);
                legacy.int(legacy_event::PID_OVERRIDE, thread.pid);
                legacy.int(legacy_event::TID_OVERRIDE, thread.tid);
                if let Some(flow) = event.bind_id.as_ref().map(Id::flow) {
                    legacy.varint(legacy_event::BIND_ID, flow);
                    let direction = u64::from(event.flows_in) | u64::from(event.flows_out) << 1;
                    legacy.varint(legacy_event::FLOW_DIRECTION, direction);
                }
            });
        })
    }

    fn asynchronous(
        &mut self,
        ts: u64,
        thread: Thread,
        event: &Event<'_>,
    ) -> Result<(), ImportError> {
        let (field, id) = match (&event.id, &event.global_id, &event.local_id) {
            (Some(id), ..) => (legacy_event::UNSCOPED_ID, id),
            (None, Some(id), _) => (legacy_event::UNSCOPED_ID, id),
            (None, None, Some(id)) => (legacy_event::LOCAL_ID, id),
            (None, None, None) => {
                self.report.losses.add("asynchronous events without an id");
                return Ok(());
            }
        };
        if event.pid.is_none() {
            self.report
                .losses
                .add("asynchronous events without a process");
            return Ok(());
        }
        let id = number(id);
        self.thread_track(ts, thread)?;
        self.legacy(ts, thread, event, |legacy| legacy.varint(field, id))
    }

    fn flow(&mut self, ts: u64, thread: Thread, event: &Event<'_>) -> Result<(), ImportError> {
        let Some(id) = event.id.as_ref().map(Id::flow) else {
            self.report.losses.add("flows without an id");
            return Ok(());
        };
        self.thread_track(ts, thread)?;
        self.legacy(ts, thread, event, |legacy| {
            legacy.varint(legacy_event::UNSCOPED_ID, id);
            legacy.bool(legacy_event::BIND_TO_ENCLOSING, event.binds_to_enclosing);
        })
    }

    /// Writes a value of a counter for each argument.
    fn counters(&mut self, ts: u64, thread: Thread, event: &Event<'_>) -> Result<(), ImportError> {
        let name = event.name.as_deref().unwrap_or_default();
        let name = match &event.id {
            Some(Id::Text(id)) if !id.is_empty() => format!("{name} id: {id}"),
            _ => name.to_owned(),
        };
        for (key, value) in event.args.iter().flatten() {
            let value = match value {
                Json::Int(value) => *value as f64,
                Json::Uint(value) => *value as f64,
                Json::Real(value) => *value,
                Json::Text(text) if text.parse::<f64>().is_ok() => text.parse().unwrap_or(0.0),
                _ => {
                    self.report
                        .losses
                        .add("counter values that are not numbers");
                    continue;
                }
            };
            let name = format!("{name} {key}");
            let track = self.tracks.counter(thread.pid, &name, ts, self.writer)?;
            self.packet(ts, |out, _| {
                out.varint(track_event::TYPE, COUNTER);
                out.varint(track_event::TRACK_UUID, track);
                out.double(track_event::DOUBLE_COUNTER_VALUE, value);
            })?;
        }
        Ok(())
    }

    /// Converts a metadata event, which names a process or thread.
    fn name(&mut self, ts: u64, thread: Thread, event: &Event<'_>) -> Result<(), ImportError> {
        let what = event.name.as_deref().unwrap_or_default();
        let name = event.args.iter().flatten().find(|(key, _)| *key == "name");
        match (what, name.and_then(|(_, name)| name.as_text())) {
            ("process_name", Some(name)) => {
                let name = with_id(name, event.pid.as_ref());
                self.tracks
                    .describe_process(thread.pid, Some(&name), ts, self.writer)?;
            }
            ("thread_name", Some(name)) => {
                let name = with_id(name, event.tid.as_ref());
                self.tracks
                    .describe_thread(thread, Some(&name), ts, self.writer)?;
            }
            (what, _) => self
                .report
                .losses
                .add(&format!("{what} of processes and threads")),
        }
        Ok(())
    }
}

/// Writes the name and category of an event. `needs_name` gives an event without a name a
/// placeholder.
fn names_of(
    out: &mut Encoder<'_, Vec<u8>>,
    names: &mut Names,
    event: &Event<'_>,
    needs_name: bool,
) {
    let name = event.name.as_deref();
    if let Some(name) = name.or(needs_name.then_some("[No name]")) {
        out.varint(track_event::NAME_IID, names.event(name));
    }
    if let Some(category) = event.category.as_deref() {
        out.varint(track_event::CATEGORY_IIDS, names.category(category));
    }
}

/// Returns the name of a process or thread, with its id if the trace has a substitute for that.
fn with_id<'a>(name: &'a str, id: Option<&Number<'_>>) -> Cow<'a, str> {
    match id {
        Some(Number::Other(id)) => Cow::Owned(format!("{name} {id}")),
        _ => Cow::Borrowed(name),
    }
}

/// Returns an id as a number; of a text, its hash.
fn number(id: &Id<'_>) -> u64 {
    match id {
        Id::Number(number) => *number,
        Id::Text(text) => Fnv1a::hash(text.as_bytes()),
    }
}
