//! Samples in a generic format for profilers: `StackSample`.

use ferretto_format::CpuMode;
use ferretto_format::sample::{MAX_FRAMES, SampleStack, StackSample, unit_name};
use ferretto_proto::fields::{interned_data, trace_packet_defaults};
use ferretto_proto::views::inline_callstack::FrameView;
use ferretto_proto::views::stack_sample::counter_descriptor::scope::SCOPE_CPU;
use ferretto_proto::views::stack_sample::{
    AsyncContextDescriptorView, CounterDescriptorView, TaskContextView,
};
use ferretto_proto::views::{InlineCallstackView, StackSampleDefaultsView, StackSampleView};
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

/// The maximum numbers of followers of a sample, and ancestors of a task.
const MAX_FOLLOWERS: usize = 64;
/// The name of the mapping of inline callstacks.
const INLINE: &str = "stack_sample_inline";
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
    tracks: RecentTracks,
}

/// The maximum number of recent counters, a few for each of the sessions.
const MAX_RECENT: usize = 16;

/// The tracks of recent counters. Most samples of a trace have the same.
#[derive(Debug, Default)]
struct RecentTracks(Vec<(CounterKey, Box<[u8]>, Option<u32>)>);

/// The properties of a counter that are not in its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CounterKey {
    machine: u32,
    session: u32,
    source: StringId,
    cpu: Option<u32>,
    is_timebase: bool,
}

impl RecentTracks {
    /// Returns the track of a counter; `None` if it is counted by CPU and the CPU is unknown.
    #[inline]
    fn of(&mut self, cx: &mut Context, key: CounterKey, descriptor: &[u8]) -> Option<u32> {
        let mut known = self.0.iter();
        let known = known.find(|(of, bytes, _)| *of == key && **bytes == *descriptor);
        match known {
            Some((.., track)) => *track,
            None => self.add(cx, key, descriptor),
        }
    }

    #[cold]
    fn add(&mut self, cx: &mut Context, key: CounterKey, descriptor: &[u8]) -> Option<u32> {
        let track = track(cx, key, descriptor);
        if self.0.len() == MAX_RECENT {
            self.0.remove(0);
        }
        self.0.push((key, descriptor.into(), track));
        track
    }
}

/// The encoded descriptors of the counters of a sample.
#[derive(Debug)]
struct Events<'a> {
    primary: Option<&'a [u8]>,
    followers: Vec<Option<&'a [u8]>>,
}

impl<'a> Events<'a> {
    /// Returns the events of a sample. The defaults of its sequence have those that are missing.
    fn of(
        sample: &StackSample<'a, 'a>,
        defaults: &StackSampleDefaultsView<'a>,
        state: EventState<'a>,
    ) -> Self {
        let fields = &sample.fields;
        let own = fields.follower_descriptors.iter().take(MAX_FOLLOWERS);
        let mut followers: Vec<_> = own.map(Some).collect();
        if followers.is_empty() {
            let table = interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS;
            let iids = fields.follower_descriptor_iids.iter().take(MAX_FOLLOWERS);
            followers = iids.map(|iid| state.message(table, iid)).collect();
        }
        if followers.is_empty() {
            let of_sequence = defaults.follower_descriptors.iter().take(MAX_FOLLOWERS);
            followers = of_sequence.map(Some).collect();
        }
        let primary = if sample.has_event {
            sample.event
        } else {
            defaults.primary_descriptor
        };
        Self { primary, followers }
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
        let sample = StackSample::read(bytes, |table, iid| state.message(table, iid));
        let defaults = &state.state.defaults.bytes;
        let defaults = Fields::find(trace_packet_defaults::STACK_SAMPLE_DEFAULTS, defaults);
        let defaults = defaults.and_then(|defaults| defaults.as_bytes());
        let defaults = StackSampleDefaultsView::read(defaults.unwrap_or_default());
        let events = Events::of(&sample, &defaults, state);
        let source = match defaults.source.filter(|source| !source.is_empty()) {
            Some(source) => cx.store.strings.intern_bytes(source),
            None => StringId::NULL,
        };
        let task = sample.task.map(|task| self.task(cx, state, &task));
        let task_context_id = task.map(|task| contexts.task(cx, task));
        let cpu = sample.execution.and_then(|execution| execution.cpu);
        let mode = sample.execution.and_then(|execution| execution.mode);
        let mode = mode_name(CpuMode::of_stack_sample(mode.unwrap_or(0)));
        let mode = mode.map_or(StringId::NULL, |name| cx.store.strings.intern(name));
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
        let weights = &sample.fields;
        let key = CounterKey {
            machine: cx.store.machine,
            session,
            source,
            cpu,
            is_timebase: true,
        };
        let counters = counters(cx, ts, (&events, weights), key, &mut self.tracks);
        let upid = task.and_then(|task| task.upid);
        let (callstack, callsite_id) = match sample.stack {
            Some(SampleStack::Interned(iid)) => (stacks.ticket(cx, state, upid, iid), None),
            Some(SampleStack::Inline(callstack)) => {
                let mapping = &mut self.inline_mapping;
                (None, inline_callstack(cx, INLINE, mapping, callstack))
            }
            None => (None, None),
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
        task: &TaskContextView<'_>,
    ) -> ProfilerTaskContextRow {
        let (pid, tid) = (task.pid, task.tid);
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
            async_context_id: task
                .async_id
                .and_then(|iid| self.async_context(cx, state, iid)),
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
            let context = AsyncContextDescriptorView::read(bytes);
            iid = context.parent_iid.unwrap_or(0);
        }
        for (iid, bytes) in new.into_iter().rev() {
            let context = AsyncContextDescriptorView::read(bytes);
            let mut text = |text: Option<&[u8]>| {
                let text = text.filter(|text| !text.is_empty());
                text.map_or(StringId::NULL, |text| cx.store.strings.intern_bytes(text))
            };
            let row = ProfilerAsyncContextRow {
                name: text(context.name),
                kind: text(context.kind),
                parent_id,
            };
            let id = cx.store.tables.profiler_async_context.push(row);
            self.tasks.insert((sequence, generation, iid), id);
            parent_id = Some(id);
        }
        parent_id
    }
}

/// Returns the callsite of an `InlineCallstack`, whose mapping has this name and row.
pub(crate) fn inline_callstack(
    cx: &mut Context,
    name: &str,
    mapping: &mut Option<u32>,
    callstack: &[u8],
) -> Option<u32> {
    let mapping = *mapping.get_or_insert_with(|| {
        let name = cx.store.strings.intern(name);
        cx.stacks.add_source_mapping(&mut cx.store, name)
    });
    let frames = InlineCallstackView::read(callstack).frames;
    let mut rows = Vec::new();
    for frame in frames.iter().take(MAX_FRAMES) {
        let frame = FrameView::read(frame);
        let mut text = |text: Option<&[u8]>, missing| {
            text.map_or(missing, |text| cx.store.strings.intern_bytes(text))
        };
        let source = SourceFrame {
            function: text(frame.function_name, StringId::EMPTY),
            file: text(frame.source_file, StringId::NULL),
            line: frame.line_number,
        };
        rows.push(cx.stacks.source_frame(&mut cx.store, mapping, source));
    }
    cx.store.callstack(rows)
}

/// Adds the counter values of a sample, and returns their rows.
fn counters(
    cx: &mut Context,
    ts: i64,
    (events, weights): (&Events<'_>, &StackSampleView<'_>),
    key: CounterKey,
    tracks: &mut RecentTracks,
) -> Vec<u32> {
    let mut rows = Vec::new();
    let primary = events.primary.and_then(|of| tracks.of(cx, key, of));
    let of_follower = CounterKey {
        is_timebase: false,
        ..key
    };
    let mut all = vec![(primary, weights.primary_weight)];
    let mut of_followers = weights.follower_weights.iter();
    for follower in &events.followers {
        let track = follower.and_then(|of| tracks.of(cx, of_follower, of));
        all.push((track, of_followers.next()));
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
fn track(cx: &mut Context, key: CounterKey, descriptor: &[u8]) -> Option<u32> {
    let CounterKey {
        session,
        source,
        cpu,
        is_timebase,
        ..
    } = key;
    let descriptor = CounterDescriptorView::read(descriptor);
    let mut text = |text: Option<&[u8]>, missing| {
        text.map_or(missing, |text| cx.store.strings.intern_bytes(text))
    };
    let name = text(descriptor.name, StringId::EMPTY);
    let description = descriptor.description.filter(|text| !text.is_empty());
    let description = text(description, StringId::NULL);
    let unit_text = descriptor.unit_str.unwrap_or_default();
    let unit = descriptor.unit.and_then(unit_name);
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
    if let Some(multiplier) = descriptor.unit_multiplier {
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
    let spec = if descriptor.scope == Some(SCOPE_CPU) {
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
