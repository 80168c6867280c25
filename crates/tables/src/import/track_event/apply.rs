//! Applies track events in the order of time.

use ferretto_format::track_event::{
    Annotation, AnnotationValue, GPU_CORRELATION, Scalar, Text, TrackEvent, legacy_phase,
};
use ferretto_proto::fields::track_event as field;
use ferretto_proto::views::track_event::legacy_event::flow_direction;
use ferretto_proto::views::track_event::{LegacyEventView, r#type as event_type};

use super::super::context::{Context, EventState};
use super::super::profiles::Profiles;
use super::args::{ArgsReader, Surroundings};
use super::resolved::Names;
use super::tokenizer::Extra;
use super::tracks::{Part, Tracks};
use crate::schema::{TableId, TrackEventCallstacksRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::{ArgSet, Arrays};
use crate::trackers::flow::FlowTracker;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The error of an event that is dropped. It is counted, independent of the kind of error.
#[derive(Debug)]
pub(super) struct Fault;

/// The names, thread, process and track of an event.
#[derive(Debug, Default)]
pub(super) struct Subject {
    pub(super) category: StringId,
    pub(super) name: StringId,
    pub(super) uuid: u64,
    pub(super) utid: Option<u32>,
    pub(super) upid: Option<u32>,
    /// The writing thread, if the event is not on its track.
    pub(super) passthrough: Option<u32>,
    /// Set if the event has no track and is on that of the writing thread.
    pub(super) is_on_thread: bool,
    pub(super) thread_time: Option<i64>,
    pub(super) instructions: Option<i64>,
    pub(super) source_id: Option<i64>,
}

/// A track event that is being applied.
#[derive(Debug)]
pub(super) struct Applying<'a, 'e> {
    pub(super) cx: &'a mut Context,
    pub(super) ts: i64,
    pub(super) event: TrackEvent<'e>,
    /// The size of the encoded event in bytes.
    pub(super) size: usize,
    /// The decoded names and annotations of the event, if it was decoded ahead.
    pub(super) names: Option<Names<'e>>,
    pub(super) extra: &'a Extra,
    pub(super) state: EventState<'a>,
    pub(super) tracks: &'a mut Tracks,
    pub(super) reader: &'a mut ArgsReader,
    pub(super) stacks: &'a mut Profiles,
    pub(super) args: &'a mut ArgSet,
    /// The thread that writes the sequence, from a descriptor.
    pub(super) thread: Option<(i64, i64)>,
    pub(super) of: Subject,
}

impl Applying<'_, '_> {
    /// Adds the rows of the event.
    pub(super) fn apply(&mut self) -> Result<(), Fault> {
        let legacy = self.event.legacy().unwrap_or_default();
        let phase = legacy_phase(&legacy);
        if self.event.event_type == 0 && phase.is_none() {
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
        for index in 0..self.extra.others.len() {
            self.count_other(index);
        }
        match self.event.event_type {
            event_type::TYPE_COUNTER => return self.counter(),
            event_type::TYPE_STATE => return self.state(),
            _ => {}
        }
        let is_of_thread = self.of.utid.is_some();
        let phase = phase.unwrap_or(match (self.event.event_type, is_of_thread) {
            (event_type::TYPE_SLICE_BEGIN, true) => b'B',
            (event_type::TYPE_SLICE_BEGIN, false) => b'b',
            (event_type::TYPE_SLICE_END, true) => b'E',
            (event_type::TYPE_SLICE_END, false) => b'e',
            (event_type::TYPE_INSTANT, true) => b'i',
            (event_type::TYPE_INSTANT, false) => b'n',
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

    /// Collects the arguments of an event that extends others with these arrays.
    fn read_args_behind(&mut self, phase: Option<u8>, arrays: Arrays) -> Option<u32> {
        self.args.clear();
        self.args.set_arrays(arrays);
        let event = &self.event;
        let of = &self.of;
        if event.has_other_fields
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
                size: self.size,
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

    fn begin(&mut self, legacy: &LegacyEventView<'_>, phase: u8) -> Result<(), Fault> {
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

    fn end(&mut self, legacy: &LegacyEventView<'_>) -> Result<(), Fault> {
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

    fn complete(&mut self, legacy: &LegacyEventView<'_>) -> Result<(), Fault> {
        let dur = legacy.duration_us.unwrap_or(0).wrapping_mul(1000);
        if dur < 0 {
            return Err(Fault);
        }
        let track = self.track(legacy, Part::Alone)?;
        let times = (
            legacy.thread_duration_us.unwrap_or(0).wrapping_mul(1000),
            legacy.thread_instruction_delta.unwrap_or(0),
        );
        self.add_whole(legacy, track, dur, times, None);
        Ok(())
    }

    fn instant(&mut self, legacy: &LegacyEventView<'_>, phase: u8) -> Result<(), Fault> {
        let track = self.track(legacy, Part::Instant)?;
        let shown = (phase == b'R').then_some(phase);
        self.add_whole(legacy, track, 0, (0, 0), shown);
        Ok(())
    }

    fn step(&mut self, legacy: &LegacyEventView<'_>, phase: u8) -> Result<(), Fault> {
        let track = self.track(legacy, Part::Instant)?;
        let callsite = self.read_args(Some(phase));
        let start = self.start(track);
        let cx = &mut *self.cx;
        if let Some(slice) = cx.slices.complete(&mut cx.store, start, 0, self.args) {
            self.keep_callstack(slice, track, callsite);
        }
        Ok(())
    }

    /// Adds a slice with a known end.
    fn add_whole(
        &mut self,
        legacy: &LegacyEventView<'_>,
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
        if self.of.utid.is_some() && !matches!(legacy_phase(legacy), Some(b'n')) {
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
        let legacy = LegacyEventView::default();
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

    /// Adds the counter values of threads in old traces.
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

    /// Adds the value of another counter of the event.
    fn count_other(&mut self, index: usize) {
        let (uuid, value) = self.extra.others[index];
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

    /// Adds flows to a slice.
    fn follow(&mut self, legacy: &LegacyEventView<'_>, slice: u32) {
        let (cx, ts) = (&mut *self.cx, self.ts);
        if let Some(flow) = legacy.bind_id {
            match legacy.flow_direction {
                Some(flow_direction::FLOW_IN) => cx.flows.end(&mut cx.store, ts, slice, flow),
                Some(flow_direction::FLOW_OUT) => cx.flows.begin(&mut cx.store, ts, slice, flow),
                Some(flow_direction::FLOW_INOUT) => cx.flows.step(&mut cx.store, ts, slice, flow),
                _ => cx.store.stats.add(Stat::flow_without_direction, 1),
            }
        }
        if self.event.has_gpu_work {
            self.correlate(slice);
        }
        let cx = &mut *self.cx;
        if !self.event.has_flows {
            return;
        }
        for flow in self.event.flows() {
            cx.flows.follow(&mut cx.store, ts, slice, flow);
        }
        for flow in self.event.ending_flows() {
            cx.flows.terminate(&mut cx.store, ts, slice, flow);
        }
    }

    /// Connects a slice with the work of GPUs that it submits or waits for.
    fn correlate(&mut self, slice: u32) {
        const SUBMITTED: u32 = 1;
        const AWAITED: u32 = 2;
        let cx = &mut *self.cx;
        let correlation = self.event.find(GPU_CORRELATION);
        let parts = correlation.and_then(|part| part.as_message());
        for part in parts.into_iter().flatten().map_while(Result::ok) {
            for id in part.as_varints() {
                match part.number {
                    SUBMITTED => cx.gpu_work.submit(&mut cx.store, id, slice),
                    AWAITED => cx.gpu_work.await_end(&mut cx.store, id, slice),
                    _ => {}
                }
            }
        }
    }

    /// Handles an event that is part of a flow of old traces.
    fn old_flow(&mut self, legacy: &LegacyEventView<'_>, phase: u8) -> Result<(), Fault> {
        let Some(id) = legacy.unscoped_id else {
            self.cx.store.stats.add(Stat::flow_invalid_id, 1);
            return Err(Fault);
        };
        let flow = self.cx.flows.of_old((self.of.category, self.of.name, id));
        let track = self.track(legacy, Part::Alone)?;
        let (cx, ts) = (&mut *self.cx, self.ts);
        if phase == b'f' && legacy.bind_to_enclosing != Some(true) {
            cx.flows.end_at_next(&mut cx.slices, track, flow);
            return Ok(());
        }
        let Some(slice) = FlowTracker::innermost(&mut cx.store, &cx.slices, track) else {
            return Ok(());
        };
        match phase {
            b's' => cx.flows.begin(&mut cx.store, ts, slice, flow),
            b't' => cx.flows.step(&mut cx.store, ts, slice, flow),
            _ => cx.flows.end(&mut cx.store, ts, slice, flow),
        }
        Ok(())
    }

    /// Handles an event that names its thread or process.
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
        let annotation = self.event.annotations().next().ok_or(Fault)?;
        let name = match Annotation::read(annotation).value {
            AnnotationValue::Scalar(Scalar::Text(Text::Literal(text))) if !text.is_empty() => {
                cx.store.strings.intern_bytes(text)
            }
            _ => StringId::NULL,
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
        let is_end = self.event.event_type == event_type::TYPE_SLICE_END;
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
