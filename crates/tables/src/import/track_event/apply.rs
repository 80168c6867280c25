//! Track events in the order of time.

use ferretto_proto::fields::{interned_data, track_event as field};

use super::super::context::{Context, EventState};
use super::super::profiles::Profiles;
use super::Nesting;
use super::args::{ArgsReader, Surroundings};
use super::descriptor::{Owner, Part, Tracks};
use super::event::{Event, Legacy, event_type};
use super::resolved::Names;
use super::tokenizer::Extra;
use crate::schema::{ArgValue, TableId, TrackEventCallstacksRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::{ArgSet, Arrays};
use crate::trackers::flow::FlowTracker;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// Why an event is left out. It is counted, and which fault it is does not matter.
#[derive(Debug)]
pub(super) struct Fault;

/// A track event that becomes rows.
#[derive(Debug)]
pub(super) struct Applying<'a, 'e> {
    pub(super) cx: &'a mut Context,
    pub(super) ts: i64,
    pub(super) event: Event<'e>,
    /// The names and annotations of the event if it was decoded ahead.
    pub(super) names: Option<Names<'e>>,
    pub(super) extra: &'a Extra,
    pub(super) state: EventState<'a>,
    pub(super) tracks: &'a mut Tracks,
    pub(super) reader: &'a mut ArgsReader,
    pub(super) stacks: &'a mut Profiles,
    pub(super) args: &'a mut ArgSet,
    /// The thread that writes the sequence, if a descriptor says so.
    pub(super) thread: Option<(i64, i64)>,
    pub(super) of: Subject,
}

/// The things that an event is about.
#[derive(Debug, Default)]
pub(super) struct Subject {
    category: StringId,
    name: StringId,
    uuid: u64,
    utid: Option<u32>,
    upid: Option<u32>,
    /// The writing thread, where the event is not on its track.
    passthrough: Option<u32>,
    /// The event is on the track of the writing thread, as it names no track.
    is_on_thread: bool,
    thread_time: Option<i64>,
    instructions: Option<i64>,
    source_id: Option<i64>,
}

/// Returns a number for a thread whose own one is not unique in the trace.
fn made_up_tid(tid: i64, pid: i64) -> i64 {
    pid << 32 | tid
}

impl Applying<'_, '_> {
    /// Fills the rows of the event.
    pub(super) fn apply(&mut self) -> Result<(), Fault> {
        let legacy = self.event.legacy.unwrap_or_default();
        if self.event.kind == 0 && legacy.phase.is_none() {
            return Err(Fault);
        }
        self.of.thread_time = self.extra.thread_time;
        self.of.instructions = self.extra.instructions;
        self.of.category = self.category();
        self.of.name = self.name(&legacy);
        self.find_owner(&legacy)?;
        if self.of.utid.is_some()
            && (self.extra.thread_time, self.extra.instructions) != (None, None)
        {
            self.count_thread_time();
        }
        for place in 0..self.extra.others.len() {
            self.count_other(place);
        }
        match self.event.kind {
            event_type::COUNTER => return self.counter(),
            event_type::STATE => return self.state(),
            _ => {}
        }
        let is_of_thread = self.of.utid.is_some();
        let phase = legacy
            .phase
            .unwrap_or(match (self.event.kind, is_of_thread) {
                (event_type::SLICE_BEGIN, true) => b'B',
                (event_type::SLICE_BEGIN, false) => b'b',
                (event_type::SLICE_END, true) => b'E',
                (event_type::SLICE_END, false) => b'e',
                (event_type::INSTANT, true) => b'i',
                (event_type::INSTANT, false) => b'n',
                _ => 0,
            });
        match phase {
            b'B' | b'E' | b'X' if !is_of_thread => Err(Fault),
            b'B' => self.begin(&legacy, phase),
            b'b' | b'S' => self.begin(&legacy, phase),
            b'E' | b'e' | b'F' => self.end(&legacy),
            b'X' => self.complete(&legacy),
            b'i' | b'I' | b'R' | b'n' => self.instant(&legacy, phase),
            b'T' | b'p' => self.step(&legacy, phase),
            b's' | b't' | b'f' => self.old_flow(&legacy, phase),
            b'M' => self.metadata(),
            // Other phases are neither slices nor counters.
            _ if is_of_thread => Ok(()),
            _ => Err(Fault),
        }
    }

    fn category(&mut self) -> StringId {
        if let Some(names) = &self.names {
            return names.category;
        }
        let event = &self.event;
        let strings = &mut self.cx.store.strings;
        let table = interned_data::EVENT_CATEGORIES;
        match (event.categories, event.category) {
            (0, _) => StringId::NULL,
            (1, Some(text)) => strings.intern_bytes(text),
            (1, None) => match self.state.text(table, event.category_iid) {
                Some(category) => category,
                None => {
                    let stats = &mut self.cx.store.stats;
                    stats.add(Stat::interned_data_tokenizer_errors, 1);
                    strings.intern(&format!("unknown({})", event.category_iid))
                }
            },
            _ => {
                let mut all = Vec::new();
                let mut add = |text: &[u8]| {
                    if !all.is_empty() {
                        all.push(b',');
                    }
                    all.extend_from_slice(text);
                };
                for part in event.fields() {
                    if part.number == field::CATEGORY_IIDS {
                        for iid in part.as_varints() {
                            match self.state.text(table, iid) {
                                Some(text) => add(strings.text(text).as_bytes()),
                                None => {
                                    let stats = &mut self.cx.store.stats;
                                    stats.add(Stat::interned_data_tokenizer_errors, 1);
                                }
                            }
                        }
                    }
                }
                for part in event.fields() {
                    if part.number == field::CATEGORIES {
                        add(part.as_bytes().unwrap_or_default());
                    }
                }
                match all.is_empty() {
                    true => StringId::NULL,
                    false => strings.intern_bytes(&all),
                }
            }
        }
    }

    fn name(&mut self, legacy: &Legacy<'_>) -> StringId {
        if let Some(names) = &self.names {
            return names.name;
        }
        let iid = match self.event.name_iid {
            0 => legacy.name_iid,
            iid => iid,
        };
        if iid != 0 {
            let name = self.state.text(interned_data::EVENT_NAMES, iid);
            if name.is_none() {
                let stats = &mut self.cx.store.stats;
                stats.add(Stat::interned_data_tokenizer_errors, 1);
            }
            return name.unwrap_or(StringId::NULL);
        }
        match self.event.name {
            Some(name) => self.cx.store.strings.intern_bytes(name),
            None => StringId::NULL,
        }
    }

    /// Finds out who the event belongs to.
    fn find_owner(&mut self, legacy: &Legacy<'_>) -> Result<(), Fault> {
        let cx = &mut *self.cx;
        let of = &mut self.of;
        let track = self.event.track.or(self.state.state.defaults.track);
        of.uuid = track.unwrap_or(0);
        if of.uuid != 0 {
            let resolved = self.tracks.resolve(cx, of.uuid).ok_or(Fault)?;
            match resolved.owner {
                Owner::Thread(utid) => {
                    of.utid = Some(utid);
                    of.upid = cx.store.tables.thread.upid.get(utid);
                }
                Owner::Process(upid) => {
                    of.upid = Some(upid);
                    if let Some((pid, tid)) = self.thread {
                        let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                        if cx.store.tables.thread.upid.get(utid) == of.upid {
                            of.passthrough = Some(utid);
                        }
                    }
                }
                Owner::Nobody => {
                    if let Some((pid, tid)) = self.thread {
                        let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                        of.passthrough = Some(utid);
                    }
                }
            }
        } else {
            let has_thread = self.thread.is_some();
            of.is_on_thread = has_thread
                && (self.event.track.is_none() || self.event.kind == 0 || legacy.tid.is_some())
                || legacy.pid.is_some();
            if of.is_on_thread {
                let (mut pid, mut tid) = self.thread.unwrap_or((0, 0));
                if let Some(number) = legacy.pid {
                    pid = i64::from(number as u32);
                    tid = made_up_tid(-1, pid);
                }
                if let Some(number) = legacy.tid {
                    let is_made_up = self.thread.is_some_and(|(_, tid)| tid >> 32 != 0);
                    tid = i64::from(number as u32);
                    if is_made_up {
                        tid = made_up_tid(tid, pid);
                    }
                }
                if pid == 0 || tid == 0 {
                    return Err(Fault);
                }
                let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
                of.utid = Some(utid);
                of.upid = cx.store.tables.thread.upid.get(utid);
            }
        }
        match legacy.phase {
            Some(b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F') => of.passthrough = of.utid,
            Some(b'i' | b'I') => match legacy.scope {
                // Global.
                1 => of.passthrough = of.utid.take(),
                // Of the process.
                2 if of.upid.is_none() => return Err(Fault),
                2 => of.passthrough = of.utid.take(),
                _ if of.utid.is_none() => return Err(Fault),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns the track of the event.
    fn track(&mut self, legacy: &Legacy<'_>, part: Part) -> Result<u32, Fault> {
        match legacy.phase {
            Some(phase @ (b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F')) => {
                // The event's own track counts as used in any case.
                if !self.of.is_on_thread {
                    self.own_row(part);
                }
                return self.async_track(legacy, phase);
            }
            Some(b'i' | b'I') if legacy.scope == 1 || legacy.scope == 2 => {
                if !self.of.is_on_thread {
                    self.own_row(part);
                }
                let mut source = ArgSet::default();
                source.text(&mut self.cx.store, "source", "chrome");
                let (type_, dimensions) = match (legacy.scope, self.of.upid) {
                    (2, Some(upid)) => ("chrome_process_instant", Some(Dimension::Upid(upid))),
                    _ => ("legacy_chrome_global_instants", None),
                };
                let spec = TrackSpec::slices(type_, dimensions.as_slice()).with_source(source);
                return Ok(self.cx.tracks.intern(&mut self.cx.store, spec));
            }
            _ => {}
        }
        match self.of.utid {
            Some(utid) if self.of.is_on_thread => {
                Ok(self.cx.tracks.of_thread(&mut self.cx.store, utid))
            }
            _ => self.own_row(part).ok_or(Fault),
        }
    }

    fn own_row(&mut self, part: Part) -> Option<u32> {
        let uuid = self.of.uuid;
        let sequence = (uuid != 0).then_some(self.state.state.sequence_id);
        self.tracks.row(self.cx, uuid, self.of.name, sequence, part)
    }

    /// Returns the track of an event of old traces that may overlap others.
    fn async_track(&mut self, legacy: &Legacy<'_>, phase: u8) -> Result<u32, Fault> {
        let (id, owner) = match (legacy.unscoped_id, legacy.global_id, legacy.local_id) {
            (Some(id), _, _) | (_, Some(id), _) => (id as i64, None),
            (_, _, Some(id)) => (id as i64, Some(self.of.upid.ok_or(Fault)?)),
            _ => return Err(Fault),
        };
        self.of.source_id = Some(id);
        let strings = &mut self.cx.store.strings;
        let mut scope = match phase {
            b'S' | b'T' | b'p' | b'F' => self.of.name,
            _ => self.of.category,
        };
        if let Some(id_scope) = legacy.id_scope {
            let category = strings.text(self.of.category);
            let text = format!("{category}:{}", String::from_utf8_lossy(id_scope));
            scope = strings.intern(&text);
        }
        let root = self.reader.first_name(owner, id, self.of.name);
        let mut dimensions = Vec::new();
        dimensions.extend(owner.map(Dimension::Upid));
        dimensions.push(Dimension::Text("scope", scope));
        dimensions.push(Dimension::Text("name", root));
        let type_ = match owner {
            Some(_) => "legacy_async_process_slice",
            None => "legacy_async_global_slice",
        };
        let group = self.cx.lanes.group(&self.cx.store, type_, &dimensions);
        let lanes = &mut self.cx.lanes;
        let lane = match phase {
            b'b' | b'S' => lanes.begin(group, id, Nesting::Nested),
            b'e' | b'T' => lanes.end(group, id),
            _ => lanes.instant(group, id),
        };
        let (name, upid) = (self.of.name, self.of.upid);
        Ok(lanes.track(&mut self.cx.store, lane, |store| {
            let mut source = ArgSet::default();
            source.text(store, "source", "chrome");
            let is_local = ArgValue::Bool(owner.is_some());
            source.put(store, "trace_id_is_process_scoped", is_local);
            source.put(store, "upid", ArgValue::Uint(upid.unwrap_or(0).into()));
            source.put(store, "source_scope", ArgValue::Text(scope));
            let spec = TrackSpec::slices(type_, &[]);
            (spec.named(name).with_source(source), dimensions)
        }))
    }

    fn start(&self, track: u32) -> SliceStart {
        SliceStart {
            ts: self.ts,
            track,
            category: self.of.category,
            name: self.of.name,
        }
    }

    /// Collects the arguments. Returns the callstack of the event.
    fn read_args(&mut self, phase: Option<u8>) -> Option<u32> {
        self.read_args_behind(phase, Arrays::default())
    }

    /// Collects the arguments of an event that adds to others, which have these arrays.
    fn read_args_behind(&mut self, phase: Option<u8>, arrays: Arrays) -> Option<u32> {
        self.args.clear();
        self.args.set_arrays(arrays);
        let event = &self.event;
        let of = &self.of;
        if event.has_args
            || event.has_annotations
            || event.has_callstack
            || of.passthrough.is_some()
            || of.source_id.is_some()
        {
            let around = Surroundings {
                ts: self.ts,
                utid: of.utid,
                upid: of.upid,
                source_id: of.source_id,
                passthrough: of.passthrough,
                annotations: self.names.map(|names| names.annotations),
            };
            let callsite =
                self.reader
                    .read(self.cx, event, self.state, &around, self.stacks, self.args);
            self.put_phase(phase);
            return callsite;
        }
        self.put_phase(phase);
        None
    }

    fn put_phase(&mut self, phase: Option<u8>) {
        if let Some(phase) = phase {
            let text = char::from(phase).to_string();
            self.args
                .text(&mut self.cx.store, "legacy_event.phase", &text);
        }
    }

    fn begin(&mut self, legacy: &Legacy<'_>, phase: u8) -> Result<(), Fault> {
        let track = self.track(legacy, Part::Begin)?;
        if !self.cx.store.wants(TableId::slice) {
            return Ok(());
        }
        let callsite = self.read_args((phase == b'S').then_some(phase));
        let start = self.start(track);
        let cx = &mut *self.cx;
        let Some(slice) = cx.slices.begin(&mut cx.store, start, self.args) else {
            return Ok(());
        };
        if phase == b'B' {
            let table = &mut cx.store.tables.slice;
            if self.of.thread_time.is_some() {
                table.thread_ts.set(slice, self.of.thread_time);
            }
            if self.of.instructions.is_some() {
                table
                    .thread_instruction_count
                    .set(slice, self.of.instructions);
            }
        }
        self.follow(legacy, slice);
        self.keep_callstack(slice, track, callsite);
        Ok(())
    }

    fn end(&mut self, legacy: &Legacy<'_>) -> Result<(), Fault> {
        let track = self.track(legacy, Part::End)?;
        let of = (self.of.category, self.of.name);
        let callsite = match self.cx.slices.open_args(track, of.0, of.1) {
            Some((_, open)) => {
                let arrays = open.arrays();
                self.read_args_behind(None, arrays)
            }
            None => None,
        };
        let cx = &mut *self.cx;
        let Some(slice) = cx.slices.end(&mut cx.store, self.ts, track, of, self.args) else {
            return Ok(());
        };
        if self.of.utid.is_some() && self.of.passthrough.is_none() {
            let table = &mut cx.store.tables.slice;
            if let (Some(end), Some(start)) = (self.of.thread_time, table.thread_ts.get(slice)) {
                let used = end.wrapping_sub(start);
                if used != 0 {
                    table.thread_dur.set(slice, Some(used));
                }
            }
            let start = table.thread_instruction_count.get(slice);
            if let (Some(end), Some(start)) = (self.of.instructions, start) {
                let used = end.wrapping_sub(start);
                table.thread_instruction_delta.set(slice, Some(used));
            }
        }
        self.follow(legacy, slice);
        self.keep_callstack(slice, track, callsite);
        Ok(())
    }

    fn complete(&mut self, legacy: &Legacy<'_>) -> Result<(), Fault> {
        let dur = legacy.duration_us.wrapping_mul(1000);
        if dur < 0 {
            return Err(Fault);
        }
        let track = self.track(legacy, Part::Alone)?;
        let times = (
            legacy.thread_duration_us.wrapping_mul(1000),
            legacy.thread_instruction_delta,
        );
        self.add_whole(legacy, track, dur, times, None);
        Ok(())
    }

    fn instant(&mut self, legacy: &Legacy<'_>, phase: u8) -> Result<(), Fault> {
        let track = self.track(legacy, Part::Instant)?;
        let shown = (phase == b'R').then_some(phase);
        self.add_whole(legacy, track, 0, (0, 0), shown);
        Ok(())
    }

    fn step(&mut self, legacy: &Legacy<'_>, phase: u8) -> Result<(), Fault> {
        let track = self.track(legacy, Part::Instant)?;
        let callsite = self.read_args(Some(phase));
        let start = self.start(track);
        let cx = &mut *self.cx;
        if let Some(slice) = cx.slices.complete(&mut cx.store, start, 0, self.args) {
            self.keep_callstack(slice, track, callsite);
        }
        Ok(())
    }

    /// Adds a slice of which the end is known.
    fn add_whole(
        &mut self,
        legacy: &Legacy<'_>,
        track: u32,
        dur: i64,
        (thread_dur, instructions): (i64, i64),
        phase: Option<u8>,
    ) {
        if !self.cx.store.wants(TableId::slice) {
            return;
        }
        let callsite = self.read_args(phase);
        let start = self.start(track);
        let cx = &mut *self.cx;
        let Some(slice) = cx.slices.complete(&mut cx.store, start, dur, self.args) else {
            return;
        };
        if self.of.utid.is_some() && !matches!(legacy.phase, Some(b'n')) {
            let table = &mut cx.store.tables.slice;
            if self.of.thread_time.is_some() {
                table.thread_ts.set(slice, self.of.thread_time);
                table.thread_dur.set(slice, Some(thread_dur));
            }
            if self.of.instructions.is_some() {
                table
                    .thread_instruction_count
                    .set(slice, self.of.instructions);
                table
                    .thread_instruction_delta
                    .set(slice, Some(instructions));
            }
        }
        self.follow(legacy, slice);
        self.keep_callstack(slice, track, callsite);
    }

    fn counter(&mut self) -> Result<(), Fault> {
        let legacy = Legacy::default();
        let track = self.track(&legacy, Part::Alone)?;
        self.read_args(None);
        let cx = &mut *self.cx;
        cx.counters
            .add(&mut cx.store, self.ts, track, self.extra.counter, self.args);
        Ok(())
    }

    fn state(&mut self) -> Result<(), Fault> {
        if self.of.is_on_thread {
            return Err(Fault);
        }
        let track = self.own_row(Part::State).ok_or(Fault)?;
        if !self.of.name.is_null() {
            self.read_args(None);
        }
        let cx = &mut *self.cx;
        let of = (self.of.category, self.of.name);
        cx.states.set(&mut cx.store, self.ts, track, of, self.args);
        Ok(())
    }

    /// Adds the values of old traces that are counters of their thread.
    fn count_thread_time(&mut self) {
        let Some(utid) = self.of.utid else { return };
        let cx = &mut *self.cx;
        let counters = [
            ("thread_time", "thread_time", self.extra.thread_time),
            (
                "thread_instructions",
                "thread_instruction_count",
                self.extra.instructions,
            ),
        ];
        for (type_, name, value) in counters {
            let Some(value) = value else { continue };
            let name = cx.store.strings.intern(name);
            let dimensions = [Dimension::Utid(utid)];
            let spec = TrackSpec::counter(type_, &dimensions).named(name);
            let track = cx.tracks.intern(&mut cx.store, spec);
            let args = &mut ArgSet::default();
            cx.counters
                .add(&mut cx.store, self.ts, track, value as f64, args);
        }
    }

    /// Adds the value of a further counter of the event.
    fn count_other(&mut self, place: usize) {
        let (uuid, value) = self.extra.others[place];
        let sequence = Some(self.state.state.sequence_id);
        let row = self
            .tracks
            .row(self.cx, uuid, StringId::NULL, sequence, Part::Alone);
        let Some(track) = row else { return };
        let cx = &mut *self.cx;
        let args = &mut ArgSet::default();
        cx.counters.add(&mut cx.store, self.ts, track, value, args);
        match cx.store.strings.text(cx.store.tables.track.name.get(track)) {
            "thread_time" => self.of.thread_time = Some(value as i64),
            "thread_instruction_count" => self.of.instructions = Some(value as i64),
            _ => {}
        }
    }

    /// Leads flows to a slice.
    fn follow(&mut self, legacy: &Legacy<'_>, slice: u32) {
        let cx = &mut *self.cx;
        if let Some(flow) = legacy.bind_id {
            match legacy.flow_direction {
                Some(1) => cx.flows.end(&mut cx.store, slice, flow, false),
                Some(2) => cx.flows.begin(&mut cx.store, slice, flow),
                Some(3) => cx.flows.step(&mut cx.store, slice, flow),
                _ => cx.store.stats.add(Stat::flow_without_direction, 1),
            }
        }
        if !self.event.has_flows {
            return;
        }
        let either = |new, old| match self.event.find(new) {
            Some(_) => self.event.numbers(new),
            None => self.event.numbers(old),
        };
        for flow in either(field::FLOW_IDS, field::FLOW_IDS_OLD) {
            match cx.flows.is_active(flow) {
                false => cx.flows.begin(&mut cx.store, slice, flow),
                true => cx.flows.step(&mut cx.store, slice, flow),
            }
        }
        for flow in either(field::TERMINATING_FLOW_IDS, field::TERMINATING_FLOW_IDS_OLD) {
            if cx.flows.is_active(flow) {
                cx.flows.end(&mut cx.store, slice, flow, true);
            }
        }
    }

    /// Reads an event that is part of a flow of old traces.
    fn old_flow(&mut self, legacy: &Legacy<'_>, phase: u8) -> Result<(), Fault> {
        let Some(id) = legacy.unscoped_id else {
            self.cx.store.stats.add(Stat::flow_invalid_id, 1);
            return Err(Fault);
        };
        let flow = self.cx.flows.of_old((self.of.category, self.of.name, id));
        let track = self.track(legacy, Part::Alone)?;
        let cx = &mut *self.cx;
        if phase == b'f' && !legacy.binds_to_enclosing {
            cx.flows.end_at_next(&mut cx.slices, track, flow);
            return Ok(());
        }
        let Some(slice) = FlowTracker::innermost(&mut cx.store, &cx.slices, track) else {
            return Ok(());
        };
        match phase {
            b's' => cx.flows.begin(&mut cx.store, slice, flow),
            b't' => cx.flows.step(&mut cx.store, slice, flow),
            _ => cx.flows.end(&mut cx.store, slice, flow, false),
        }
        Ok(())
    }

    /// Reads an event that names its thread or process.
    fn metadata(&mut self) -> Result<(), Fault> {
        if self.of.name.is_null() {
            return Err(Fault);
        }
        let cx = &mut *self.cx;
        let is_thread = match cx.store.strings.text(self.of.name) {
            "thread_name" => true,
            "process_name" => false,
            _ => return Ok(()),
        };
        let mut fields = self.event.fields();
        let annotation = fields.find(|part| part.number == field::DEBUG_ANNOTATIONS);
        let bytes = annotation.and_then(|part| part.as_bytes()).ok_or(Fault)?;
        let text = ferretto_wire::Fields::find(
            ferretto_proto::fields::debug_annotation::STRING_VALUE,
            bytes,
        );
        let text = text.and_then(|text| text.as_bytes()).unwrap_or_default();
        let name = match text {
            [] => StringId::NULL,
            text => cx.store.strings.intern_bytes(text),
        };
        if is_thread {
            let utid = self.of.utid.ok_or(Fault)?;
            let source = ThreadNameSource::TrackDescriptorType;
            cx.processes.name_thread(&mut cx.store, utid, name, source);
        } else {
            let upid = self.of.upid.ok_or(Fault)?;
            let source = ProcessNameSource::TrackDescriptor;
            cx.processes.name_process(&mut cx.store, upid, name, source);
        }
        Ok(())
    }

    fn keep_callstack(&mut self, slice: u32, track: u32, callsite: Option<u32>) {
        if callsite.is_none() {
            return;
        }
        let is_end = self.event.kind == event_type::SLICE_END;
        let weight = self.event.find(field::CALLSTACK_WEIGHT);
        let row = TrackEventCallstacksRow {
            slice_id: slice,
            track_id: track,
            callsite_id: callsite.filter(|_| !is_end),
            end_callsite_id: callsite.filter(|_| is_end),
            weight: weight.and_then(|weight| weight.as_f64()),
        };
        self.cx.store.tables.track_event_callstacks.push(row);
    }
}
