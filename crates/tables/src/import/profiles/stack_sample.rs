//! Samples in a generic format for profilers: `StackSample`.

use ferretto_format::CpuMode;
use ferretto_proto::fields::stack_sample::{
    async_context_descriptor, counter_descriptor, execution_context, task_context,
};
use ferretto_proto::fields::{
    inline_callstack, interned_data, stack_sample, stack_sample_defaults, trace_packet_defaults,
};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::super::context::{Context, EventState};
use super::contexts::CounterSet;
use super::{Sampling, mode_name};
use crate::schema::{
    ArgValue, ProfilerAsyncContextRow, ProfilerSampleRow, ProfilerSessionRow,
    ProfilerTaskContextRow,
};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::stack_profile::SourceFrame;
use crate::trackers::track::{Dimension, TrackSpec};

/// The maximum numbers of followers of a sample, frames of a callstack, and ancestors of a task.
const MAX_FOLLOWERS: usize = 64;
const MAX_FRAMES: usize = 2048;
const MAX_ANCESTORS: usize = 64;

/// The sessions of such samples.
#[derive(Debug, Default)]
pub(super) struct StackSamples {
    /// `profiler_session.id` by sequence.
    sessions: FxHashMap<u32, u32>,
    /// `profiler_async_context.id` by sequence, generation of its incremental state, and iid.
    tasks: FxHashMap<(u32, u32, u64), u32>,
    /// The mapping of inline callstacks: `stack_profile_mapping.id`.
    inline_mapping: Option<u32>,
}

/// The encoded fields of a sample.
#[derive(Debug, Default)]
struct Sample<'a> {
    task: Option<&'a [u8]>,
    execution: Option<&'a [u8]>,
    callstack: Option<&'a [u8]>,
    callstack_iid: Option<u64>,
    primary: Option<&'a [u8]>,
    primary_weight: Option<u64>,
    followers: Vec<Option<&'a [u8]>>,
    follower_weights: Vec<u64>,
}

impl<'a> Sample<'a> {
    fn read(bytes: &'a [u8], state: EventState<'a>) -> Self {
        let mut sample = Self::default();
        let mut follower_iids = Vec::new();
        for field in Fields::new(bytes).map_while(Result::ok) {
            let interned = |table| state.message(table, field.as_u64().unwrap_or(0));
            match field.number {
                stack_sample::TASK_CONTEXT => sample.task = field.as_bytes(),
                stack_sample::TASK_CONTEXT_IID => {
                    sample.task = interned(interned_data::STACK_SAMPLE_TASK_CONTEXTS);
                }
                stack_sample::EXECUTION_CONTEXT => sample.execution = field.as_bytes(),
                stack_sample::EXECUTION_CONTEXT_IID => {
                    sample.execution = interned(interned_data::STACK_SAMPLE_EXECUTION_CONTEXTS);
                }
                stack_sample::CALLSTACK => sample.callstack = field.as_bytes(),
                stack_sample::CALLSTACK_IID => sample.callstack_iid = field.as_u64(),
                stack_sample::PRIMARY_DESCRIPTOR => sample.primary = field.as_bytes(),
                stack_sample::PRIMARY_DESCRIPTOR_IID => {
                    sample.primary = interned(interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS);
                }
                stack_sample::PRIMARY_WEIGHT => sample.primary_weight = field.as_u64(),
                stack_sample::FOLLOWER_DESCRIPTORS => sample.followers.push(field.as_bytes()),
                stack_sample::FOLLOWER_DESCRIPTOR_IIDS => {
                    let left = MAX_FOLLOWERS.saturating_sub(follower_iids.len());
                    follower_iids.extend(field.as_varints().take(left));
                }
                stack_sample::FOLLOWER_WEIGHTS => {
                    let left = MAX_FOLLOWERS.saturating_sub(sample.follower_weights.len());
                    sample
                        .follower_weights
                        .extend(field.as_varints().take(left));
                }
                _ => {}
            }
        }
        if sample.followers.is_empty() {
            let table = interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS;
            let iids = follower_iids.into_iter();
            sample.followers = iids.map(|iid| state.message(table, iid)).collect();
        }
        sample
    }

    /// Sets missing fields of the sample from the defaults.
    fn complete(&mut self, defaults: &'a [u8], has_primary: bool) -> Option<&'a [u8]> {
        let mut source = None;
        let has_followers = !self.followers.is_empty();
        for field in Fields::new(defaults).map_while(Result::ok) {
            match field.number {
                stack_sample_defaults::SOURCE => source = field.as_bytes(),
                stack_sample_defaults::PRIMARY_DESCRIPTOR if !has_primary => {
                    self.primary = field.as_bytes();
                }
                stack_sample_defaults::FOLLOWER_DESCRIPTORS if !has_followers => {
                    self.followers.push(field.as_bytes());
                }
                _ => {}
            }
        }
        self.followers.truncate(MAX_FOLLOWERS);
        source.filter(|source| !source.is_empty())
    }
}

impl StackSamples {
    /// Parses a `StackSample`.
    pub(super) fn parse(&mut self, sampling: Sampling<'_>, bytes: &[u8]) {
        let Sampling {
            cx,
            ts,
            state,
            stacks,
            contexts,
        } = sampling;
        let mut sample = Sample::read(bytes, state);
        let defaults = &state.state.defaults.bytes;
        let defaults = Fields::find(trace_packet_defaults::STACK_SAMPLE_DEFAULTS, defaults);
        let defaults = defaults.and_then(|defaults| defaults.as_bytes());
        let has_primary = Fields::new(bytes).map_while(Result::ok).any(|field| {
            use stack_sample::{PRIMARY_DESCRIPTOR, PRIMARY_DESCRIPTOR_IID};
            matches!(field.number, PRIMARY_DESCRIPTOR | PRIMARY_DESCRIPTOR_IID)
        });
        let source = sample.complete(defaults.unwrap_or_default(), has_primary);
        let source = match source {
            Some(source) => cx.store.strings.intern_bytes(source),
            None => StringId::NULL,
        };
        let task = sample.task.map(|task| self.task(cx, state, task));
        let task_context_id = task.map(|task| contexts.task(cx, task));
        let (mut cpu, mut mode) = (None, StringId::NULL);
        if let Some(execution) = sample.execution {
            for field in Fields::new(execution).map_while(Result::ok) {
                match field.number {
                    execution_context::CPU => cpu = field.as_u32(),
                    execution_context::MODE => {
                        let number = field.as_u64().unwrap_or(0);
                        let name = mode_name(CpuMode::of_stack_sample(number));
                        mode = name.map_or(StringId::NULL, |name| cx.store.strings.intern(name));
                    }
                    _ => {}
                }
            }
        }
        let execution_context_id = sample.execution.map(|_| {
            let ucpu = cpu.and_then(|cpu| cx.cpus.intern(&mut cx.store, cpu));
            contexts.execution(cx, ucpu, mode)
        });
        let session = *self
            .sessions
            .entry(state.state.sequence)
            .or_insert_with(|| {
                cx.store.tables.profiler_session.push(ProfilerSessionRow {
                    source,
                    timebase_unit: StringId::NULL,
                    cmdline: StringId::NULL,
                })
            });
        let counters = counters(cx, ts, &sample, session, source, cpu);
        let upid = task.and_then(|task| task.upid);
        let (callstack, callsite_id) = match (sample.callstack_iid, sample.callstack) {
            (Some(iid), _) => (stacks.ticket(cx, state, upid, iid), None),
            (None, Some(callstack)) => (None, self.inline_callstack(cx, callstack)),
            (None, None) => (None, None),
        };
        let mut counter_set = CounterSet::default();
        for counter in counters {
            counter_set.add(cx, counter);
        }
        let counter_set_id = counter_set.id();
        let row = ProfilerSampleRow {
            ts,
            source,
            task_context_id,
            execution_context_id,
            callsite_id,
            unwind_error: StringId::NULL,
            session_id: Some(session),
            counter_set_id,
        };
        cx.store.add_sample(row, callstack);
    }

    fn task(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        task: &[u8],
    ) -> ProfilerTaskContextRow {
        let (mut pid, mut tid, mut async_id) = (None, None, None);
        for field in Fields::new(task).map_while(Result::ok) {
            match field.number {
                task_context::PID => pid = field.as_u32(),
                task_context::TID => tid = field.as_u32(),
                task_context::ASYNC_ID => async_id = field.as_u64(),
                _ => {}
            }
        }
        let store = &mut cx.store;
        let upid = pid.map(|pid| cx.processes.process(store, pid.into()));
        let utid = tid.map(|tid| match pid {
            Some(pid) => cx
                .processes
                .thread_in_process(store, tid.into(), pid.into()),
            None => cx.processes.thread(store, tid.into()),
        });
        ProfilerTaskContextRow {
            upid,
            utid,
            async_context_id: async_id.and_then(|iid| self.async_context(cx, state, iid)),
        }
    }

    /// Returns the row of an async context, after adding its ancestors.
    fn async_context(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        mut iid: u64,
    ) -> Option<u32> {
        let (sequence, generation) = (state.state.sequence, state.state.generation);
        let mut new: Vec<(u64, &[u8])> = Vec::new();
        let mut parent_id = None;
        while iid != 0 {
            parent_id = self.tasks.get(&(sequence, generation, iid)).copied();
            let table = interned_data::STACK_SAMPLE_ASYNC_CONTEXT_DESCRIPTORS;
            let is_cycle = new.iter().any(|(known, _)| *known == iid);
            if parent_id.is_some() || is_cycle || new.len() == MAX_ANCESTORS {
                break;
            }
            let Some(bytes) = state.message(table, iid) else {
                break;
            };
            new.push((iid, bytes));
            let parent = Fields::find(async_context_descriptor::PARENT_IID, bytes);
            iid = parent.and_then(|parent| parent.as_u64()).unwrap_or(0);
        }
        for (iid, bytes) in new.into_iter().rev() {
            let mut text = |field| {
                let text = Fields::find(field, bytes).and_then(|field| field.as_bytes());
                let text = text.filter(|text| !text.is_empty());
                text.map_or(StringId::NULL, |text| cx.store.strings.intern_bytes(text))
            };
            let row = ProfilerAsyncContextRow {
                name: text(async_context_descriptor::NAME),
                kind: text(async_context_descriptor::KIND),
                parent_id,
            };
            let id = cx.store.tables.profiler_async_context.push(row);
            self.tasks.insert((sequence, generation, iid), id);
            parent_id = Some(id);
        }
        parent_id
    }

    /// Returns the callsite of an inline callstack.
    fn inline_callstack(&mut self, cx: &mut Context, callstack: &[u8]) -> Option<u32> {
        let mapping = *self.inline_mapping.get_or_insert_with(|| {
            let name = cx.store.strings.intern("stack_sample_inline");
            cx.stacks.add_source_mapping(&mut cx.store, name)
        });
        let frames = Fields::new(callstack).map_while(Result::ok);
        let frames = frames.filter(|field| field.number == inline_callstack::FRAMES);
        let mut rows = Vec::new();
        for frame in frames.take(MAX_FRAMES) {
            let source = inline_frame(cx, frame.as_bytes().unwrap_or_default());
            rows.push(cx.stacks.source_frame(&mut cx.store, mapping, source));
        }
        cx.store.callstack(rows)
    }
}

fn inline_frame(cx: &mut Context, bytes: &[u8]) -> SourceFrame {
    use inline_callstack::frame;
    let mut source = SourceFrame {
        function: StringId::EMPTY,
        file: StringId::NULL,
        line: None,
    };
    for field in Fields::new(bytes).map_while(Result::ok) {
        let mut text = || {
            cx.store
                .strings
                .intern_bytes(field.as_bytes().unwrap_or_default())
        };
        match field.number {
            frame::FUNCTION_NAME => source.function = text(),
            frame::SOURCE_FILE => source.file = text(),
            frame::LINE_NUMBER => source.line = field.as_u32(),
            _ => {}
        }
    }
    source
}

/// Adds the counter values of a sample, and returns their rows.
fn counters(
    cx: &mut Context,
    ts: i64,
    sample: &Sample<'_>,
    session: u32,
    source: StringId,
    cpu: Option<u32>,
) -> Vec<u32> {
    let mut rows = Vec::new();
    let primary = sample
        .primary
        .and_then(|of| track(cx, of, session, source, cpu, true));
    let mut all = vec![(primary, sample.primary_weight)];
    for (index, follower) in sample.followers.iter().enumerate() {
        let track = follower.and_then(|of| track(cx, of, session, source, cpu, false));
        all.push((track, sample.follower_weights.get(index).copied()));
    }
    for (track, weight) in all {
        if let (Some(track), Some(weight)) = (track, weight) {
            let args = &mut ArgSet::default();
            rows.extend(
                cx.counters
                    .add(&mut cx.store, ts, track, weight as f64, args),
            );
        }
    }
    rows
}

/// Returns the track of a counter; `None` if it is counted by CPU and the CPU is unknown.
fn track(
    cx: &mut Context,
    descriptor: &[u8],
    session: u32,
    source: StringId,
    cpu: Option<u32>,
    is_timebase: bool,
) -> Option<u32> {
    use counter_descriptor as of;
    const CPU: u64 = 2;
    let (mut name, mut description, mut unit_text) = (StringId::EMPTY, StringId::NULL, &[][..]);
    let (mut unit, mut multiplier, mut scope) = (None, None, 0);
    for field in Fields::new(descriptor).map_while(Result::ok) {
        let bytes = field.as_bytes().unwrap_or_default();
        match field.number {
            of::NAME => name = cx.store.strings.intern_bytes(bytes),
            of::UNIT => unit = field.as_u64().and_then(unit_name),
            of::UNIT_STR => unit_text = bytes,
            of::UNIT_MULTIPLIER => multiplier = field.as_u64(),
            of::DESCRIPTION if !bytes.is_empty() => {
                description = cx.store.strings.intern_bytes(bytes);
            }
            of::SCOPE => scope = field.as_u64().unwrap_or(0),
            _ => {}
        }
    }
    let unit = match unit {
        Some(unit) => cx.store.strings.intern(unit),
        None if !unit_text.is_empty() => cx.store.strings.intern_bytes(unit_text),
        None => StringId::NULL,
    };
    if is_timebase && !unit.is_null() {
        let column = &mut cx.store.tables.profiler_session.timebase_unit;
        if column.get(session).is_null() {
            column.set(session, unit);
        }
    }
    let mut args = ArgSet::default();
    args.put(&mut cx.store, "is_timebase", ArgValue::Bool(is_timebase));
    if let Some(multiplier) = multiplier {
        args.int(&mut cx.store, "unit_multiplier", multiplier as i64);
    }
    if !description.is_null() {
        args.put(&mut cx.store, "description", ArgValue::Text(description));
    }
    let global = [
        Dimension::Int("session_id", session.into()),
        Dimension::Text("source", source),
        Dimension::Text("counter_name", name),
    ];
    let by_cpu;
    let spec = if scope == CPU {
        let [id, source, name] = global;
        by_cpu = [Dimension::Cpu(cpu?), id, source, name];
        TrackSpec::counter("stack_sample_cpu_counter", &by_cpu)
    } else {
        TrackSpec::counter("stack_sample_session_counter", &global)
    };
    let spec = TrackSpec {
        unit,
        ..spec.named(name).with_source(args)
    };
    Some(cx.tracks.intern(&mut cx.store, spec))
}

/// Returns the name of a `StackSample.Unit`.
fn unit_name(unit: u64) -> Option<&'static str> {
    Some(match unit {
        1 => "ns",
        2 => "cycles",
        3 => "instructions",
        4 => "bytes",
        5 => "page-faults",
        6 => "cache-misses",
        7 => "cache-references",
        8 => "branch-misses",
        9 => "count",
        _ => return None,
    })
}
