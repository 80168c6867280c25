//! Parses JSON events in the order of time.

use std::convert::Infallible;

use ferretto_foreign::json::{Event, Id, Json, Number, Samples};
use ferretto_foreign::sink::{
    AsyncStep, FlowStep, LeftOut, Owner, Record, Sample, Sink, ThreadState,
};
use rustc_hash::FxHashMap;

use super::super::samples::SampleRows;
use crate::import::{Context, file_time};
use crate::schema::{ArgValue, SchedSliceRow, ThreadStateRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::{ArgSet, key_budget};
use crate::trackers::flow::FlowTracker;
use crate::trackers::lane::Nesting;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};
use crate::trackers::slice::SliceStart;
use crate::trackers::stack_profile::SourceFrame;
use crate::trackers::track::{Dimension, TrackSpec};

/// The state of JSON events.
#[derive(Debug, Default)]
pub(crate) struct JsonEvents {
    /// The cookies of asynchronous slices, by category and id.
    cookies: FxHashMap<(StringId, IdKey), i64>,
    /// The name of the first event of each asynchronous slice, which is the name of its track.
    names: FxHashMap<(Option<u32>, i64), StringId>,
    samples: SampleRows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum IdKey {
    Number(u64),
    Text(StringId),
}

/// A sink that adds rows to the tables.
struct Rows<'c> {
    cx: &'c mut Context,
    state: &'c mut JsonEvents,
    /// The remaining bytes for keys of arguments.
    free: usize,
}

/// A record and the rows to which it refers.
struct Parsed<'a> {
    record: &'a Record<'a>,
    utid: u32,
    pid: i64,
    name: StringId,
    /// The name, or a substitute.
    shown_name: StringId,
    category: StringId,
}

impl Parsed<'_> {
    fn start(&self, track: u32, name: StringId) -> SliceStart {
        SliceStart {
            ts: self.record.ts,
            track,
            category: self.category,
            name,
        }
    }
}

impl JsonEvents {
    /// Parses an event in the order of time.
    pub(crate) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let mut spare = Vec::new();
        let Ok(event) = Event::parse(bytes, &mut spare) else {
            return;
        };
        let mut rows = Rows {
            cx,
            state: self,
            free: key_budget(bytes.len()),
        };
        let Ok(()) = event.interpret(ts, &mut rows);
    }
}

/// Adds the callstack samples of a file.
pub(super) fn samples(cx: &mut Context, samples: &mut Samples) {
    let mut rows = Rows {
        cx,
        state: &mut JsonEvents::default(),
        free: 0,
    };
    let Ok(_) = samples.finish(&mut rows, |rows, ts| file_time(rows.cx, ts));
    let stats = &mut rows.cx.store.stats;
    stats.add(Stat::json_parser_failure, samples.dropped() as i64);
}

impl Rows<'_> {
    fn parsed<'a>(&mut self, record: &'a Record<'a>) -> Parsed<'a> {
        let cx = &mut *self.cx;
        let pid = pid(cx, record.thread.pid);
        // Programs without threads omit tids.
        let tid = tid(cx, record.thread.tid).unwrap_or(pid);
        let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
        let strings = &mut cx.store.strings;
        let mut text =
            |text: Option<&str>| text.map_or(StringId::NULL, |text| strings.intern(text));
        let (name, category) = (text(record.name), text(record.category));
        Parsed {
            record,
            utid,
            pid,
            name,
            shown_name: name.or(text(Some("[No name]"))),
            category,
        }
    }

    fn args(&mut self, record: &Record<'_>) -> ArgSet {
        let mut args = ArgSet::default();
        let mut keys = Keys {
            key: record.args_name.to_owned(),
            flat: record.args_name.to_owned(),
            free: self.free,
        };
        for (key, value) in record.args {
            keys.add_member(self.cx, key, value, &mut args);
        }
        args
    }
}

impl Sink for Rows<'_> {
    type Error = Infallible;

    fn slice_begin(&mut self, record: &Record<'_>) -> Result<(), Infallible> {
        let (of, mut args) = (self.parsed(record), self.args(record));
        let cx = &mut *self.cx;
        let track = cx.tracks.of_thread(&mut cx.store, of.utid);
        let start = of.start(track, of.shown_name);
        let slice = cx.slices.begin(&mut cx.store, start, &mut args);
        set_thread_ts(cx, slice, record.thread_ts);
        bind(cx, record, track);
        Ok(())
    }

    fn slice_end(&mut self, record: &Record<'_>) -> Result<(), Infallible> {
        let (of, mut args) = (self.parsed(record), self.args(record));
        let cx = &mut *self.cx;
        let track = cx.tracks.of_thread(&mut cx.store, of.utid);
        let by = (of.category, of.name);
        let slice = cx
            .slices
            .end(&mut cx.store, record.ts, track, by, &mut args);
        let table = &mut cx.store.tables.slice;
        if let (Some(slice), Some(end)) = (slice, record.thread_ts)
            && let Some(start) = table.thread_ts.get(slice)
        {
            table.thread_dur.set(slice, Some(end.wrapping_sub(start)));
        }
        Ok(())
    }

    fn complete(
        &mut self,
        record: &Record<'_>,
        dur: i64,
        thread_dur: Option<i64>,
    ) -> Result<(), Infallible> {
        let (of, mut args) = (self.parsed(record), self.args(record));
        let cx = &mut *self.cx;
        let mut track = cx.tracks.of_thread(&mut cx.store, of.utid);
        let start = of.start(track, of.shown_name);
        let slice = match cx.slices.try_complete(&mut cx.store, start, dur, &mut args) {
            Ok(slice) => slice,
            Err(overlap) => {
                let stat = Stat::slice_spill_overlapping_complete_event;
                let mut about = ArgSet::default();
                about.put(&mut cx.store, "event_name", ArgValue::Text(of.name));
                about.text(&mut cx.store, "event_phase", "X");
                overlap.log_with(&mut cx.store, stat, record.ts, about);
                track = overlapping_track(cx, of.utid, record.ts, dur);
                let start = of.start(track, of.shown_name);
                cx.slices.complete(&mut cx.store, start, dur, &mut args)
            }
        };
        set_thread_ts(cx, slice, record.thread_ts);
        if let (Some(slice), Some(dur)) = (slice, thread_dur) {
            cx.store.tables.slice.thread_dur.set(slice, Some(dur));
        }
        bind(cx, record, track);
        Ok(())
    }

    fn instant(&mut self, record: &Record<'_>, owner: Owner) -> Result<(), Infallible> {
        let (of, mut args) = (self.parsed(record), self.args(record));
        let cx = &mut *self.cx;
        let mut source = ArgSet::default();
        if owner != Owner::Thread {
            source.text(&mut cx.store, "source", "chrome");
        }
        let (track, name) = match owner {
            Owner::Thread => (cx.tracks.of_thread(&mut cx.store, of.utid), of.shown_name),
            Owner::Process => {
                let upid = [Dimension::Upid(cx.processes.process(&mut cx.store, of.pid))];
                let spec = TrackSpec::slices("chrome_process_instant", &upid).with_source(source);
                (cx.tracks.intern(&mut cx.store, spec), of.name)
            }
            Owner::Trace => {
                let spec = TrackSpec::slices("legacy_chrome_global_instants", &[]);
                let spec = spec.with_source(source);
                (cx.tracks.intern(&mut cx.store, spec), of.name)
            }
        };
        let start = of.start(track, name);
        let slice = cx.slices.complete(&mut cx.store, start, 0, &mut args);
        if owner == Owner::Thread {
            set_thread_ts(cx, slice, record.thread_ts);
        }
        Ok(())
    }

    fn counter(&mut self, record: &Record<'_>, name: &str, value: f64) -> Result<(), Infallible> {
        let of = self.parsed(record);
        let cx = &mut *self.cx;
        let name = cx.store.strings.intern(name);
        let named = Dimension::Text("name", name);
        let (type_, owner) = match cx.store.tables.thread.upid.get(of.utid) {
            Some(upid) => ("json_counter", Dimension::Upid(upid)),
            None => ("json_counter_thread_fallback", Dimension::Utid(of.utid)),
        };
        let dimensions = [owner, named];
        let spec = TrackSpec::counter(type_, &dimensions).named(name);
        let track = cx.tracks.intern(&mut cx.store, spec);
        let args = &mut ArgSet::default();
        cx.counters
            .add(&mut cx.store, record.ts, track, value, args);
        Ok(())
    }

    /// A flow begins, continues and ends at the slices of a thread.
    fn flow(
        &mut self,
        record: &Record<'_>,
        step: FlowStep,
        id: u64,
        at_next: bool,
    ) -> Result<(), Infallible> {
        let of = self.parsed(record);
        let cx = &mut *self.cx;
        let track = cx.tracks.of_thread(&mut cx.store, of.utid);
        let flow = cx.flows.of_old((of.category, of.name, id));
        if at_next {
            cx.flows.end_at_next(&mut cx.slices, track, flow);
        } else if let Some(slice) = FlowTracker::innermost(&mut cx.store, &cx.slices, track) {
            add_step(cx, record.ts, slice, step, flow);
        }
        Ok(())
    }

    fn asynchronous(
        &mut self,
        record: &Record<'_>,
        step: AsyncStep,
        id: &Id<'_>,
        is_global: bool,
    ) -> Result<(), Infallible> {
        let (of, mut args) = (self.parsed(record), self.args(record));
        let (cx, state) = (&mut *self.cx, &mut *self.state);
        let id = match id {
            Id::Number(number) => IdKey::Number(*number),
            Id::Text(text) => IdKey::Text(cx.store.strings.intern(text)),
        };
        let next = state.cookies.len() as i64;
        let cookie = *state.cookies.entry((of.category, id)).or_insert(next);
        let upid = cx.processes.process(&mut cx.store, of.pid);
        let process = (!is_global).then_some(upid);
        let name = *state.names.entry((process, cookie)).or_insert(of.name);
        let track = lane(cx, (&of, step), upid, !is_global, (name, cookie));
        match step {
            AsyncStep::Begin => {
                let start = of.start(track, of.shown_name);
                cx.slices.begin(&mut cx.store, start, &mut args);
            }
            AsyncStep::End => {
                let by = (of.category, of.name);
                cx.slices
                    .end(&mut cx.store, record.ts, track, by, &mut args);
            }
            AsyncStep::Instant => {
                let start = of.start(track, of.name);
                cx.slices.complete(&mut cx.store, start, 0, &mut args);
            }
        }
        bind(cx, record, track);
        Ok(())
    }

    fn process_name(&mut self, record: &Record<'_>, name: &str) -> Result<(), Infallible> {
        let of = self.parsed(record);
        let cx = &mut *self.cx;
        let name = cx.store.strings.intern(name);
        let upid = cx.processes.process(&mut cx.store, of.pid);
        let source = ProcessNameSource::Other;
        cx.processes.name_process(&mut cx.store, upid, name, source);
        Ok(())
    }

    fn thread_name(&mut self, record: &Record<'_>, name: &str) -> Result<(), Infallible> {
        let of = self.parsed(record);
        let cx = &mut *self.cx;
        let name = cx.store.strings.intern(name);
        let source = ThreadNameSource::Other;
        cx.processes
            .name_thread(&mut cx.store, of.utid, name, source);
        Ok(())
    }

    fn sort_index(
        &mut self,
        record: &Record<'_>,
        is_process: bool,
        index: i64,
    ) -> Result<(), Infallible> {
        if is_process {
            // Its thread need not exist.
            let cx = &mut *self.cx;
            let pid = pid(cx, record.thread.pid);
            let upid = cx.processes.process(&mut cx.store, pid);
            cx.processes.set_process_sort_index(upid, index);
        } else {
            let utid = self.parsed(record).utid;
            self.cx.processes.set_thread_sort_index(utid, index);
        }
        Ok(())
    }

    /// Adds the state of a thread, and a CPU slice if it is running.
    fn thread_state(
        &mut self,
        record: &Record<'_>,
        state: &ThreadState<'_>,
    ) -> Result<(), Infallible> {
        let of = self.parsed(record);
        let cx = &mut *self.cx;
        let function = state.blocked_function;
        cx.store.tables.thread_state.rows.push(ThreadStateRow {
            ts: record.ts,
            dur: state.dur,
            utid: of.utid,
            state: of.shown_name,
            io_wait: state.io_wait,
            blocked_function: function
                .map_or(StringId::NULL, |function| cx.store.strings.intern(function)),
            waker_utid: None,
            waker_id: None,
            irq_context: None,
            ucpu: None,
        });
        let is_running = record.name == Some("Running");
        let cpu = state.cpu.filter(|_| is_running);
        if let Some(ucpu) = cpu.and_then(|cpu| cx.cpus.intern(&mut cx.store, cpu)) {
            cx.store.tables.sched_slice.rows.push(SchedSliceRow {
                ts: record.ts,
                dur: state.dur,
                utid: of.utid,
                end_state: StringId::NULL,
                priority: 0,
                ucpu,
            });
        }
        Ok(())
    }

    fn sample(&mut self, sample: &Sample<'_>) -> Result<(), Infallible> {
        let of = Record {
            thread: sample.thread,
            ..Record::default()
        };
        let (utid, pid) = {
            let parsed = self.parsed(&of);
            (parsed.utid, parsed.pid)
        };
        let cx = &mut *self.cx;
        let upid = Some(cx.processes.process(&mut cx.store, pid));
        let mut frames = Vec::new();
        for frame in sample.frames.iter().rev() {
            let name = cx.store.strings.intern(frame.file);
            let mapping = self.state.samples.mapping(cx, name);
            let source = SourceFrame {
                function: cx.store.strings.intern(frame.function),
                file: frame.line.map_or(StringId::EMPTY, |_| name),
                line: frame.line,
            };
            frames.push(cx.stacks.source_frame(&mut cx.store, mapping, source));
        }
        let callsite_id = cx.store.callstack(frames);
        let (sampled, thread) = ((sample.ts, "json"), (upid, utid));
        let rows = &mut self.state.samples;
        rows.add(&mut cx.store, sampled, thread, callsite_id);
        Ok(())
    }

    fn left_out(&mut self, record: &Record<'_>, why: LeftOut) {
        if !why.is_of_a_trace() {
            return;
        }
        let stat = match why {
            LeftOut::NoFlowId => Stat::flow_invalid_id,
            LeftOut::NoFlowDirection => Stat::flow_without_direction,
            _ => Stat::json_parser_failure,
        };
        let of = self.parsed(record);
        let store = &mut self.cx.store;
        let mut args = ArgSet::default();
        args.put(store, "event_name", ArgValue::Text(of.name));
        args.text(store, "error", &why.to_string());
        store.log(stat, Some(record.ts), args);
    }
}

/// Returns the first track of a thread on which a slice nests.
fn overlapping_track(cx: &mut Context, utid: u32, ts: i64, dur: i64) -> u32 {
    const TYPE: &str = "thread_overlapping_slice";
    let dimensions = [Dimension::Utid(utid)];
    let group = cx.lanes.group(&cx.store, TYPE, &dimensions);
    let lane = cx.lanes.nested(group, ts, dur);
    cx.lanes.track(&mut cx.store, lane, |_| {
        (TrackSpec::slices(TYPE, &[]), dimensions.to_vec())
    })
}

/// Returns the track of an asynchronous slice with this name and cookie.
fn lane(
    cx: &mut Context,
    (of, step): (&Parsed<'_>, AsyncStep),
    upid: u32,
    is_local: bool,
    (name, cookie): (StringId, i64),
) -> u32 {
    let scope = Dimension::Text("scope", StringId::NULL);
    let mut dimensions = vec![scope, Dimension::Text("name", name)];
    let mut type_ = "legacy_async_global_slice";
    if is_local {
        dimensions.insert(0, Dimension::Upid(upid));
        type_ = "legacy_async_process_slice";
    }
    let group = cx.lanes.group(&cx.store, type_, &dimensions);
    let lane = match step {
        AsyncStep::Begin => cx.lanes.begin(group, cookie, Nesting::Nested),
        AsyncStep::End => cx.lanes.end(group, cookie),
        AsyncStep::Instant => cx.lanes.instant(group, cookie),
    };
    cx.lanes.track(&mut cx.store, lane, |store| {
        let mut source = ArgSet::default();
        source.text(store, "source", "chrome");
        source.put(
            store,
            "trace_id_is_process_scoped",
            ArgValue::Bool(is_local),
        );
        source.put(store, "upid", ArgValue::Uint(upid.into()));
        source.put(store, "source_scope", ArgValue::Text(StringId::NULL));
        let spec = TrackSpec::slices(type_, &[]);
        (spec.named(of.name).with_source(source), dimensions)
    })
}

/// The path of an argument, with and without array indexes.
struct Keys {
    key: String,
    flat: String,
    /// The remaining bytes for keys.
    free: usize,
}

impl Keys {
    fn add(&mut self, cx: &mut Context, value: &Json<'_>, args: &mut ArgSet) {
        let value = match value {
            Json::Null => return,
            Json::Bool(value) => ArgValue::Bool(*value),
            Json::Int(value) => ArgValue::Int(*value),
            Json::Uint(value) => ArgValue::Uint(*value),
            Json::Real(value) => ArgValue::Real(*value),
            Json::Text(text) => ArgValue::Text(cx.store.strings.intern(text)),
            Json::Array(items) => {
                let end = self.key.len();
                for (index, item) in items.iter().enumerate() {
                    self.key.push_str(&format!("[{index}]"));
                    self.add(cx, item, args);
                    self.key.truncate(end);
                }
                return;
            }
            Json::Object(entries) => {
                for (key, value) in entries {
                    self.add_member(cx, key, value, args);
                }
                return;
            }
        };
        if let Some(free) = self.free.checked_sub(self.key.len()) {
            self.free = free;
            let flat = cx.store.strings.intern(&self.flat);
            let key = cx.store.strings.intern(&self.key);
            args.add(flat, key, value);
        }
    }

    fn add_member(&mut self, cx: &mut Context, key: &str, value: &Json<'_>, args: &mut ArgSet) {
        let (end, flat_end) = (self.key.len(), self.flat.len());
        for path in [&mut self.key, &mut self.flat] {
            path.push('.');
            path.push_str(key);
        }
        self.add(cx, value, args);
        self.key.truncate(end);
        self.flat.truncate(flat_end);
    }
}

/// Returns the pid. A process with a name instead, or with a number that no process of the kernel
/// has, gets a generated pid.
fn pid(cx: &mut Context, pid: Option<&Number<'_>>) -> i64 {
    let name = match pid {
        None => return 0,
        Some(Number::Number(pid)) => return (*pid).into(),
        Some(Number::Other(pid)) => cx.store.strings.intern(&pid.to_string()),
        Some(Number::Name(name)) => cx.store.strings.intern(name),
    };
    let pid = name.raw().into();
    let upid = cx.processes.process(&mut cx.store, pid);
    let source = ProcessNameSource::Other;
    if cx.store.tables.process.name.get(upid).is_null() {
        cx.processes.name_process(&mut cx.store, upid, name, source);
    }
    pid
}

/// Returns the tid, if there is one. A thread with a name instead, or with a number that no thread
/// of the kernel has, gets a generated tid.
fn tid(cx: &mut Context, tid: Option<&Number<'_>>) -> Option<i64> {
    let name = match tid? {
        Number::Number(tid) => return Some((*tid).into()),
        Number::Other(tid) => cx.store.strings.intern(&tid.to_string()),
        Number::Name(name) => cx.store.strings.intern(name),
    };
    let tid = name.raw().into();
    let utid = cx.processes.thread(&mut cx.store, tid);
    let source = ThreadNameSource::Other;
    if cx.store.tables.thread.name.get(utid).is_null() {
        cx.processes.name_thread(&mut cx.store, utid, name, source);
    }
    Some(tid)
}

fn set_thread_ts(cx: &mut Context, slice: Option<u32>, ts: Option<i64>) {
    if let (Some(slice), Some(ts)) = (slice, ts) {
        cx.store.tables.slice.thread_ts.set(slice, Some(ts));
    }
}

/// Adds the flow that a slice names itself.
fn bind(cx: &mut Context, record: &Record<'_>, track: u32) {
    if let Some((step, flow)) = record.flow
        && let Some(slice) = FlowTracker::innermost(&mut cx.store, &cx.slices, track)
    {
        add_step(cx, record.ts, slice, step, flow);
    }
}

fn add_step(cx: &mut Context, ts: i64, slice: u32, step: FlowStep, flow: u64) {
    match step {
        FlowStep::Begin => cx.flows.begin(&mut cx.store, ts, slice, flow),
        FlowStep::Step => cx.flows.step(&mut cx.store, ts, slice, flow),
        FlowStep::End => cx.flows.end(&mut cx.store, ts, slice, flow),
    }
}
