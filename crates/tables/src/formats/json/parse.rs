//! Parses JSON events in the order of time.

use std::borrow::Cow;

use ferretto_foreign::json::{Event, Id, Json, Number, Scope};
use rustc_hash::FxHashMap;

use crate::import::Context;
use crate::schema::{ArgValue, SchedSliceRow, ThreadStateRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::{ArgSet, key_room};
use crate::trackers::flow::FlowTracker;
use crate::trackers::lane::Nesting;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The state of JSON events.
#[derive(Debug, Default)]
pub(crate) struct JsonEvents {
    /// The cookies of asynchronous slices, by category and id.
    cookies: FxHashMap<(StringId, IdKey), i64>,
    /// The name of the first event of each asynchronous slice, which is the name of its track.
    names: FxHashMap<(Option<u32>, i64), StringId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum IdKey {
    Number(u64),
    Text(StringId),
}

/// An event and the rows to which it refers.
struct Parsed<'a> {
    event: &'a Event<'a>,
    ts: i64,
    utid: u32,
    pid: i64,
    name: StringId,
    /// The name, or a substitute.
    shown_name: StringId,
    category: StringId,
    args: ArgSet,
}

impl Parsed<'_> {
    fn start(&self, track: u32, name: StringId) -> SliceStart {
        SliceStart {
            ts: self.ts,
            track,
            category: self.category,
            name,
        }
    }

    /// Counts an unusable event.
    fn failed(&self, cx: &mut Context, stat: Stat) {
        let mut args = ArgSet::default();
        args.put(&mut cx.store, "event_name", ArgValue::Text(self.name));
        let phase = char::from(self.event.phase).to_string();
        args.text(&mut cx.store, "event_phase", &phase);
        cx.store.log(stat, Some(self.ts), args);
    }
}

impl JsonEvents {
    /// Parses an event in the order of time.
    pub(crate) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let mut spare = Vec::new();
        let Ok(event) = Event::parse(bytes, &mut spare) else {
            return;
        };
        let pid = pid(cx, event.pid.as_ref());
        // Programs without threads omit tids.
        let tid = tid(cx, event.tid.as_ref()).unwrap_or(pid);
        let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
        let text = |cx: &mut Context, text: Option<&Cow<'_, str>>| {
            text.map_or(StringId::NULL, |text| cx.store.strings.intern(text))
        };
        let name = text(cx, event.name.as_ref());
        let category = text(cx, event.category.as_ref());
        let no_name = cx.store.strings.intern("[No name]");
        let mut args = ArgSet::default();
        if matches!(
            event.phase,
            b'B' | b'E' | b'X' | b'b' | b'e' | b'n' | b'i' | b'I' | b'R'
        ) {
            let mut keys = Keys {
                key: "args".to_owned(),
                flat: "args".to_owned(),
                room: key_room(bytes.len()),
            };
            for (key, value) in event.args.iter().flatten() {
                keys.add_member(cx, key, value, &mut args);
            }
        }
        let parsed = Parsed {
            event: &event,
            ts,
            utid,
            pid,
            name,
            shown_name: name.or(no_name),
            category,
            args,
        };
        self.dispatch(cx, parsed);
    }

    fn dispatch(&mut self, cx: &mut Context, mut of: Parsed<'_>) {
        match of.event.phase {
            b'B' => {
                let track = cx.tracks.of_thread(&mut cx.store, of.utid);
                let start = of.start(track, of.shown_name);
                let slice = cx.slices.begin(&mut cx.store, start, &mut of.args);
                set_thread_ts(cx, slice, of.event.thread_ts);
                bind(cx, &of, track);
            }
            b'E' => {
                let track = cx.tracks.of_thread(&mut cx.store, of.utid);
                let by = (of.category, of.name);
                let slice = cx.slices.end(&mut cx.store, of.ts, track, by, &mut of.args);
                let table = &mut cx.store.tables.slice;
                if let (Some(slice), Some(end)) = (slice, of.event.thread_ts)
                    && let Some(start) = table.thread_ts.get(slice)
                {
                    table.thread_dur.set(slice, Some(end.wrapping_sub(start)));
                }
            }
            b'X' => complete(cx, of),
            b'b' | b'e' | b'n' => self.asynchronous(cx, of),
            b'i' | b'I' | b'R' => instant(cx, of),
            b'C' => counters(cx, &of),
            b's' | b't' | b'f' => flow(cx, &of),
            b'T' => thread_state(cx, &of),
            b'M' => name(cx, &of),
            // Samples of V8's profiler.
            b'P' => of.failed(cx, Stat::json_parser_failure),
            _ => {}
        }
    }

    fn asynchronous(&mut self, cx: &mut Context, mut of: Parsed<'_>) {
        let (id, is_local) = match (&of.event.id, &of.event.global_id, &of.event.local_id) {
            (Some(id), ..) | (None, Some(id), _) => (id, false),
            (None, None, Some(id)) => (id, true),
            (None, None, None) => return of.failed(cx, Stat::json_parser_failure),
        };
        if of.event.pid.is_none() {
            return of.failed(cx, Stat::json_parser_failure);
        }
        let id = match id {
            Id::Number(number) => IdKey::Number(*number),
            Id::Text(text) => IdKey::Text(cx.store.strings.intern(text)),
        };
        let next = self.cookies.len() as i64;
        let cookie = *self.cookies.entry((of.category, id)).or_insert(next);
        let upid = cx.processes.process(&mut cx.store, of.pid);
        let process = is_local.then_some(upid);
        let name = *self.names.entry((process, cookie)).or_insert(of.name);
        let track = lane(cx, &of, upid, is_local, (name, cookie));
        match of.event.phase {
            b'b' => {
                let start = of.start(track, of.shown_name);
                cx.slices.begin(&mut cx.store, start, &mut of.args);
                bind(cx, &of, track);
            }
            b'e' => {
                let by = (of.category, of.name);
                cx.slices.end(&mut cx.store, of.ts, track, by, &mut of.args);
            }
            _ => {
                let start = of.start(track, of.name);
                cx.slices.complete(&mut cx.store, start, 0, &mut of.args);
                bind(cx, &of, track);
            }
        }
    }
}

/// Adds a slice with a known end.
fn complete(cx: &mut Context, mut of: Parsed<'_>) {
    let Some(dur) = of.event.dur else {
        return of.failed(cx, Stat::json_parser_failure);
    };
    let mut track = cx.tracks.of_thread(&mut cx.store, of.utid);
    let start = of.start(track, of.shown_name);
    let slice = match cx
        .slices
        .try_complete(&mut cx.store, start, dur, &mut of.args)
    {
        Ok(slice) => slice,
        Err(overlap) => {
            let stat = Stat::slice_spill_overlapping_complete_event;
            let mut args = ArgSet::default();
            args.put(&mut cx.store, "event_name", ArgValue::Text(of.name));
            args.text(&mut cx.store, "event_phase", "X");
            overlap.log_with(&mut cx.store, stat, of.ts, args);
            track = overlapping_track(cx, of.utid, of.ts, dur);
            let start = of.start(track, of.shown_name);
            cx.slices.complete(&mut cx.store, start, dur, &mut of.args)
        }
    };
    set_thread_ts(cx, slice, of.event.thread_ts);
    if let (Some(slice), Some(dur)) = (slice, of.event.thread_dur) {
        cx.store.tables.slice.thread_dur.set(slice, Some(dur));
    }
    bind(cx, &of, track);
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
    of: &Parsed<'_>,
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
    let lane = match of.event.phase {
        b'b' => cx.lanes.begin(group, cookie, Nesting::Nested),
        b'e' => cx.lanes.end(group, cookie),
        _ => cx.lanes.instant(group, cookie),
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
    room: usize,
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
                for (place, item) in items.iter().enumerate() {
                    self.key.push_str(&format!("[{place}]"));
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
        if let Some(room) = self.room.checked_sub(self.key.len()) {
            self.room = room;
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

/// Returns the name of a process or thread, with its id if that is not the kernel's.
fn with_id(cx: &mut Context, name: &str, id: Option<&Number<'_>>) -> StringId {
    match id {
        Some(Number::Other(id)) => cx.store.strings.intern(&format!("{name} {id}")),
        _ => cx.store.strings.intern(name),
    }
}

fn set_thread_ts(cx: &mut Context, slice: Option<u32>, ts: Option<i64>) {
    if let (Some(slice), Some(ts)) = (slice, ts) {
        cx.store.tables.slice.thread_ts.set(slice, Some(ts));
    }
}

/// Adds the flows that an event describes in its own fields.
fn bind(cx: &mut Context, of: &Parsed<'_>, track: u32) {
    let Some(flow) = of.event.bind_id.as_ref().map(Id::flow) else {
        return;
    };
    let (is_in, is_out) = (of.event.flows_in, of.event.flows_out);
    if !is_in && !is_out {
        return of.failed(cx, Stat::flow_without_direction);
    }
    let Some(slice) = FlowTracker::innermost(&mut cx.store, &cx.slices, track) else {
        return;
    };
    match (is_in, is_out) {
        (true, true) => cx.flows.step(&mut cx.store, of.ts, slice, flow),
        (false, _) => cx.flows.begin(&mut cx.store, of.ts, slice, flow),
        (true, false) => cx.flows.end(&mut cx.store, of.ts, slice, flow),
    }
}

/// Begins, continues or ends a flow at the slices of a thread.
fn flow(cx: &mut Context, of: &Parsed<'_>) {
    let track = cx.tracks.of_thread(&mut cx.store, of.utid);
    let Some(id) = of.event.id.as_ref().map(Id::flow) else {
        return of.failed(cx, Stat::flow_invalid_id);
    };
    let flow = cx.flows.of_old((of.category, of.name, id));
    if of.event.phase == b'f' && !of.event.binds_to_enclosing {
        return cx.flows.end_at_next(&mut cx.slices, track, flow);
    }
    let Some(slice) = FlowTracker::innermost(&mut cx.store, &cx.slices, track) else {
        return;
    };
    match of.event.phase {
        b's' => cx.flows.begin(&mut cx.store, of.ts, slice, flow),
        b't' => cx.flows.step(&mut cx.store, of.ts, slice, flow),
        _ => cx.flows.end(&mut cx.store, of.ts, slice, flow),
    }
}

fn instant(cx: &mut Context, mut of: Parsed<'_>) {
    let mut source = ArgSet::default();
    let (track, name) = match of.event.scope {
        Scope::Thread if of.event.tid.is_some() => {
            (cx.tracks.of_thread(&mut cx.store, of.utid), of.shown_name)
        }
        Scope::Process if of.event.pid.is_some() => {
            source.text(&mut cx.store, "source", "chrome");
            let upid = [Dimension::Upid(cx.processes.process(&mut cx.store, of.pid))];
            let spec = TrackSpec::slices("chrome_process_instant", &upid).with_source(source);
            (cx.tracks.intern(&mut cx.store, spec), of.name)
        }
        Scope::Global => {
            source.text(&mut cx.store, "source", "chrome");
            let spec = TrackSpec::slices("legacy_chrome_global_instants", &[]);
            (
                cx.tracks.intern(&mut cx.store, spec.with_source(source)),
                of.name,
            )
        }
        _ => return of.failed(cx, Stat::json_parser_failure),
    };
    let start = of.start(track, name);
    let slice = cx.slices.complete(&mut cx.store, start, 0, &mut of.args);
    if of.event.scope == Scope::Thread {
        set_thread_ts(cx, slice, of.event.thread_ts);
    }
}

/// Adds a counter value for each argument.
fn counters(cx: &mut Context, of: &Parsed<'_>) {
    if of.event.args.is_none() {
        return of.failed(cx, Stat::json_parser_failure);
    }
    let name = of.event.name.as_deref().unwrap_or_default();
    let name = match &of.event.id {
        Some(Id::Text(id)) if !id.is_empty() => format!("{name} id: {id}"),
        _ => name.to_owned(),
    };
    for (key, value) in of.event.args.iter().flatten() {
        let value = match value {
            Json::Int(value) => Some(*value as f64),
            Json::Uint(value) => Some(*value as f64),
            Json::Real(value) => Some(*value),
            Json::Text(text) => text.parse().ok(),
            _ => None,
        };
        let Some(value) = value else {
            of.failed(cx, Stat::json_parser_failure);
            continue;
        };
        let name = cx.store.strings.intern(&format!("{name} {key}"));
        let named = Dimension::Text("name", name);
        let track = match cx.store.tables.thread.upid.get(of.utid) {
            Some(upid) => {
                let dimensions = [Dimension::Upid(upid), named];
                let spec = TrackSpec::counter("json_counter", &dimensions);
                cx.tracks.intern(&mut cx.store, spec.named(name))
            }
            None => {
                let dimensions = [Dimension::Utid(of.utid), named];
                let spec = TrackSpec::counter("json_counter_thread_fallback", &dimensions);
                cx.tracks.intern(&mut cx.store, spec.named(name))
            }
        };
        let args = &mut ArgSet::default();
        cx.counters.add(&mut cx.store, of.ts, track, value, args);
    }
}

/// Adds the state of a thread, and a CPU slice if it is running.
fn thread_state(cx: &mut Context, of: &Parsed<'_>) {
    let Some(dur) = of.event.dur else {
        return of.failed(cx, Stat::json_parser_failure);
    };
    let (mut cpu, mut io_wait, mut blocked_function) = (None, None, StringId::NULL);
    for (key, value) in of.event.args.iter().flatten() {
        match (&**key, value) {
            ("cpu", Json::Int(value)) => cpu = u32::try_from(*value).ok(),
            ("io_wait", Json::Int(value)) => io_wait = Some(*value != 0),
            ("blocked_function", Json::Text(text)) => {
                blocked_function = cx.store.strings.intern(text);
            }
            _ => {}
        }
    }
    cx.store.tables.thread_state.rows.push(ThreadStateRow {
        ts: of.ts,
        dur,
        utid: of.utid,
        state: of.shown_name,
        io_wait,
        blocked_function,
        waker_utid: None,
        waker_id: None,
        irq_context: None,
        ucpu: None,
    });
    if cx.store.strings.text(of.shown_name) != "Running" {
        return;
    }
    if let Some(ucpu) = cpu.and_then(|cpu| cx.cpus.intern(&mut cx.store, cpu)) {
        cx.store.tables.sched_slice.rows.push(SchedSliceRow {
            ts: of.ts,
            dur,
            utid: of.utid,
            end_state: StringId::NULL,
            priority: 0,
            ucpu,
        });
    }
}

/// Reads an event with the name or sort index of a process or thread.
fn name(cx: &mut Context, of: &Parsed<'_>) {
    let what = of.event.name.as_deref().unwrap_or_default();
    for (key, value) in of.event.args.iter().flatten() {
        match (what, &**key, value) {
            ("process_name", "name", Json::Text(name)) => {
                let name = with_id(cx, name, of.event.pid.as_ref());
                let upid = cx.processes.process(&mut cx.store, of.pid);
                let source = ProcessNameSource::Other;
                cx.processes.name_process(&mut cx.store, upid, name, source);
            }
            ("thread_name", "name", Json::Text(name)) => {
                let name = with_id(cx, name, of.event.tid.as_ref());
                let source = ThreadNameSource::Other;
                cx.processes
                    .name_thread(&mut cx.store, of.utid, name, source);
            }
            ("process_sort_index", "sort_index", Json::Int(_) | Json::Real(_)) => {
                let upid = cx.processes.process(&mut cx.store, of.pid);
                cx.processes.set_process_sort_index(upid, index(value));
            }
            ("thread_sort_index", "sort_index", Json::Int(_) | Json::Real(_)) => {
                cx.processes.set_thread_sort_index(of.utid, index(value));
            }
            ("process_name" | "thread_name", "name", _)
            | ("process_sort_index" | "thread_sort_index", "sort_index", _) => {
                of.failed(cx, Stat::json_parser_failure);
            }
            _ => {}
        }
    }
}

fn index(value: &Json<'_>) -> i64 {
    match value {
        Json::Int(value) => *value,
        Json::Real(value) => *value as i64,
        _ => 0,
    }
}
