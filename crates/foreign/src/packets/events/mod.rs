//! Writes the records of foreign files as track events and samples.

mod args;
mod names;
mod tracks;

use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_format::{CpuMode, Fnv1a};
use ferretto_profiling::MappingOf;
use ferretto_proto::fields::track_event::legacy_event;
use ferretto_proto::fields::{trace_packet, track_event};
use ferretto_wire::Encoder;

use self::names::Names;
use self::tracks::{Thread, Tracks};
use crate::Format;
use crate::json::Id;
use crate::packets::ImportError;
use crate::packets::perf;
use crate::packets::report::Report;
use crate::packets::writer::Writer;
use crate::sink::{AsyncStep, FlowStep, Frame, LeftOut, Owner, Record, Sample, Sink, ThreadState};

/// The sequence of the events.
const SEQUENCE: u32 = 1 << 16;

/// Types of track events.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// The largest number of events of samples.
const MAX_SAMPLED_EVENTS: usize = 256;

/// A sink that writes packets.
pub(super) struct TrackEvents<'a, 'w> {
    pub(super) writer: &'a mut Writer<'w>,
    pub(super) report: Report,
    names: Names,
    tracks: Tracks,
    has_begun: bool,
    /// False if the current record has no equivalent in packets.
    is_stored: bool,
    /// The packets of samples.
    sampled: perf::Samples,
    /// The events of samples, and whether these have a time.
    sampled_events: Vec<(String, bool)>,
}

impl<'a, 'w> TrackEvents<'a, 'w> {
    pub(super) fn new(format: Format, writer: &'a mut Writer<'w>) -> Self {
        Self {
            writer,
            report: Report::new(format),
            names: Names::default(),
            tracks: Tracks::default(),
            has_begun: false,
            is_stored: false,
            sampled: perf::Samples::default(),
            sampled_events: Vec::new(),
        }
    }

    /// Writes the records that `add` passes on. They count as one event, unless none of them has an
    /// equivalent in packets, or they are no event.
    pub(super) fn event(
        &mut self,
        is_event: bool,
        add: impl FnOnce(&mut Self) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        self.is_stored = is_event;
        add(self)?;
        self.report.events += u64::from(self.is_stored);
        Ok(())
    }
}

impl TrackEvents<'_, '_> {
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
            let flags = if is_new {
                INCREMENTAL_STATE_CLEARED | NEEDS_INCREMENTAL_STATE
            } else {
                NEEDS_INCREMENTAL_STATE
            };
            packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
            names.new_entries().write_to(packet);
            packet.bytes(trace_packet::TRACK_EVENT, &message);
        })
    }

    /// Writes the beginning or end of a slice, or an instant.
    fn slice(&mut self, track: u64, kind: u64, record: &Record<'_>) -> Result<(), ImportError> {
        self.packet(record.ts as u64, |out, names| {
            out.varint(track_event::TYPE, kind);
            out.varint(track_event::TRACK_UUID, track);
            names_of(out, names, record, kind != END);
            if let Some(time) = record.thread_ts {
                out.int(track_event::THREAD_TIME_ABSOLUTE_US, time / 1000);
            }
            args::write(out, names, record.args);
            if let Some(flow) = record.flow {
                out.nested(track_event::LEGACY_EVENT, |legacy| bind(legacy, flow));
            }
        })
    }

    /// Writes an event in the legacy form of Chrome's own traces.
    fn legacy(
        &mut self,
        phase: u8,
        record: &Record<'_>,
        more: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
    ) -> Result<(), ImportError> {
        let thread = self.tracks.thread(record.thread);
        let ts = record.ts as u64;
        self.thread_track(ts, thread)?;
        self.packet(ts, |out, names| {
            names_of(out, names, record, true);
            args::write(out, names, record.args);
            out.nested(track_event::LEGACY_EVENT, |legacy| {
                legacy.varint(legacy_event::PHASE, phase.into());
                more(legacy);
                legacy.int(legacy_event::PID_OVERRIDE, thread.pid);
                legacy.int(legacy_event::TID_OVERRIDE, thread.tid);
                if let Some(flow) = record.flow {
                    bind(legacy, flow);
                }
            });
        })
    }

    /// Counts a record without an equivalent in packets.
    fn leave_out(&mut self, what: &str) {
        self.report.losses.add(what);
        self.is_stored = false;
    }
}

impl Sink for TrackEvents<'_, '_> {
    type Error = ImportError;

    fn slice_begin(&mut self, record: &Record<'_>) -> Result<(), ImportError> {
        let thread = self.tracks.thread(record.thread);
        self.tracks.begin(thread);
        let track = self.thread_track(record.ts as u64, thread)?;
        self.slice(track, BEGIN, record)
    }

    fn slice_end(&mut self, record: &Record<'_>) -> Result<(), ImportError> {
        let thread = self.tracks.thread(record.thread);
        self.tracks.end(thread);
        let track = self.thread_track(record.ts as u64, thread)?;
        self.slice(track, END, record)
    }

    fn complete(
        &mut self,
        record: &Record<'_>,
        dur: i64,
        thread_dur: Option<i64>,
    ) -> Result<(), ImportError> {
        let thread = self.tracks.thread(record.thread);
        let ts = record.ts as u64;
        let end = record.ts.saturating_add(dur);
        let lane = self.tracks.complete(thread, ts, end as u64);
        let mut track = self.thread_track(ts, thread)?;
        if lane > 0 {
            let what = "slices that overlap others of their thread, moved to tracks of their own";
            self.report.losses.add(what);
            track = self.tracks.overlapping(thread, lane, ts, self.writer)?;
        }
        self.slice(track, BEGIN, record)?;
        let thread_end = record.thread_ts.zip(thread_dur);
        let last = Record {
            ts: end,
            args: &[],
            flow: None,
            thread_ts: thread_end.map(|(ts, dur)| ts.saturating_add(dur)),
            ..*record
        };
        self.slice(track, END, &last)
    }

    fn instant(&mut self, record: &Record<'_>, owner: Owner) -> Result<(), ImportError> {
        let thread = self.tracks.thread(record.thread);
        let ts = record.ts as u64;
        let track = match owner {
            Owner::Thread => self.thread_track(ts, thread)?,
            Owner::Process => self
                .tracks
                .describe_process(thread.pid, None, ts, self.writer)?,
            Owner::Trace => self.tracks.global(ts, self.writer)?,
        };
        let record = Record {
            thread_ts: None,
            ..*record
        };
        self.slice(track, INSTANT, &record)
    }

    fn counter(&mut self, record: &Record<'_>, name: &str, value: f64) -> Result<(), ImportError> {
        let thread = self.tracks.thread(record.thread);
        let ts = record.ts as u64;
        let track = self.tracks.counter(thread.pid, name, ts, self.writer)?;
        self.packet(ts, |out, _| {
            out.varint(track_event::TYPE, COUNTER);
            out.varint(track_event::TRACK_UUID, track);
            out.double(track_event::DOUBLE_COUNTER_VALUE, value);
        })
    }

    fn flow(
        &mut self,
        record: &Record<'_>,
        step: FlowStep,
        id: u64,
        at_next: bool,
    ) -> Result<(), ImportError> {
        let phase = match step {
            FlowStep::Begin => b's',
            FlowStep::Step => b't',
            FlowStep::End => b'f',
        };
        self.legacy(phase, record, |legacy| {
            legacy.varint(legacy_event::UNSCOPED_ID, id);
            legacy.bool(legacy_event::BIND_TO_ENCLOSING, !at_next);
        })
    }

    fn asynchronous(
        &mut self,
        record: &Record<'_>,
        step: AsyncStep,
        id: &Id<'_>,
        is_global: bool,
    ) -> Result<(), ImportError> {
        let phase = match step {
            AsyncStep::Begin => b'b',
            AsyncStep::End => b'e',
            AsyncStep::Instant => b'n',
        };
        let field = if is_global {
            legacy_event::UNSCOPED_ID
        } else {
            legacy_event::LOCAL_ID
        };
        let id = number(id);
        self.legacy(phase, record, |legacy| legacy.varint(field, id))
    }

    fn process_name(&mut self, record: &Record<'_>, name: &str) -> Result<(), ImportError> {
        let (thread, ts) = (self.tracks.thread(record.thread), record.ts as u64);
        self.tracks
            .describe_process(thread.pid, Some(name), ts, self.writer)
            .map(drop)
    }

    fn thread_name(&mut self, record: &Record<'_>, name: &str) -> Result<(), ImportError> {
        let (thread, ts) = (self.tracks.thread(record.thread), record.ts as u64);
        self.tracks
            .describe_thread(thread, Some(name), ts, self.writer)
            .map(drop)
    }

    fn sort_index(&mut self, record: &Record<'_>, _: bool, _: i64) -> Result<(), ImportError> {
        self.left_out(record, LeftOut::Metadata);
        Ok(())
    }

    fn thread_state(
        &mut self,
        record: &Record<'_>,
        _: &ThreadState<'_>,
    ) -> Result<(), ImportError> {
        self.left_out(record, LeftOut::Phase(b'T'));
        Ok(())
    }

    fn sample(&mut self, sample: &Sample<'_>) -> Result<(), ImportError> {
        let thread = self.tracks.thread(sample.thread);
        let ts = sample.ts as u64;
        self.thread_track(ts, thread)?;
        let has_time = sample.time.is_some();
        let known = (self.sampled_events.iter())
            .position(|(name, timed)| name == sample.event && *timed == has_time);
        let event = match known {
            Some(event) => event,
            // Further names count as the first.
            None if self.sampled_events.len() >= MAX_SAMPLED_EVENTS => 0,
            None => {
                let name = sample.event.to_owned();
                self.sampled_events.push((name.clone(), has_time));
                self.sampled.add_event(perf::EventSpec {
                    unit: perf::Unit::of_event(&name),
                    name,
                    followers: if has_time {
                        vec![("time".to_owned(), perf::Unit::Nanoseconds)]
                    } else {
                        Vec::new()
                    },
                    ..perf::EventSpec::default()
                })
            }
        };
        let head = perf::Head {
            ts,
            cpu: None,
            // Process 0 of the kernel is idle, but that of a file is a process.
            pid: Some(thread.pid as u32).filter(|pid| *pid != 0),
            tid: thread.tid as u32,
            mode: CpuMode::User,
            period: sample.weight,
            followers: sample.time.as_slice(),
        };
        self.sampled.write(self.writer, event, head, |interner| {
            let frame = |of: &Frame<'_>| {
                let mapping = interner.mapping(&MappingOf {
                    path: of.file.as_bytes(),
                    ..MappingOf::default()
                });
                let function = of.function.as_bytes();
                match of.line.filter(|_| !of.file.is_empty()) {
                    Some(line) => {
                        let source = (of.file.as_bytes(), line);
                        interner.frame_in_source(mapping, 0, function, source)
                    }
                    None => interner.frame(mapping, 0, function),
                }
            };
            sample.frames.iter().map(frame).collect()
        })
    }

    fn left_out(&mut self, record: &Record<'_>, why: LeftOut) {
        self.report.is_damaged |= why.is_of_a_trace();
        match why {
            LeftOut::Metadata | LeftOut::BadName => {
                let name = record.name.unwrap_or_default();
                self.leave_out(&format!("{name} of processes and threads"));
            }
            // Only a part of these is left out.
            LeftOut::BadCounterValue | LeftOut::NoFlowDirection => {
                self.report.losses.add(&why.to_string());
            }
            why => self.leave_out(&why.to_string()),
        }
    }
}

/// Writes the flow that a slice names itself.
fn bind(legacy: &mut Encoder<'_, Vec<u8>>, (step, flow): (FlowStep, u64)) {
    legacy.varint(legacy_event::BIND_ID, flow);
    let direction = match step {
        FlowStep::End => 1,
        FlowStep::Begin => 2,
        FlowStep::Step => 3,
    };
    legacy.varint(legacy_event::FLOW_DIRECTION, direction);
}

/// Writes the name and category of an event. `needs_name` gives an event without a name a
/// placeholder.
fn names_of(
    out: &mut Encoder<'_, Vec<u8>>,
    names: &mut Names,
    record: &Record<'_>,
    needs_name: bool,
) {
    if let Some(name) = record.name.or(needs_name.then_some("[No name]")) {
        out.varint(track_event::NAME_IID, names.event(name));
    }
    if let Some(category) = record.category {
        out.varint(track_event::CATEGORY_IIDS, names.category(category));
    }
}

/// Returns an id as a number; of a text, its hash.
fn number(id: &Id<'_>) -> u64 {
    match id {
        Id::Number(number) => *number,
        Id::Text(text) => Fnv1a::hash(text.as_bytes()),
    }
}
