//! Samples of the callstack profiler: `PerfSample`.

use std::borrow::Cow;

use ferretto_format::CpuMode;
use ferretto_format::perf_event::PerfEvent;
use ferretto_format::sample::PerfSample;
use ferretto_proto::fields::trace_packet_defaults;
use ferretto_proto::views::perf_events::TimebaseView;
use ferretto_proto::views::perf_sample::sample_skip_reason::{
    PROFILER_SKIP_READ_STAGE, PROFILER_SKIP_UNWIND_ENQUEUE, PROFILER_SKIP_UNWIND_STAGE,
};
use ferretto_proto::views::profiling::stack_unwind_error as error;
use ferretto_proto::views::{PerfSampleDefaultsView, PerfSampleView};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::super::context::{Context, EventState};
use super::contexts::CounterSet;
use super::{Sampling, mode_name};
use crate::schema::{ArgValue, ProfilerSampleRow, ProfilerSessionRow, ProfilerTaskContextRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// The source of such samples.
const SOURCE: &str = "linux.perf";
/// The maximum number of followers.
const MAX_FOLLOWERS: usize = 64;

/// The sessions of samples, by sequence.
#[derive(Debug, Default)]
pub(super) struct PerfSessions {
    sequences: FxHashMap<u32, Session>,
    /// The counters of CPUs above the maximum.
    other: Counters,
    /// The name of the source, once there are samples.
    source: StringId,
    /// The names of CPU modes by number.
    modes: [StringId; MODES],
}

#[derive(Debug)]
struct Session {
    /// `profiler_session.id`
    id: u32,
    cpus: FxHashMap<u32, Counters>,
}

/// The counters of a CPU: `track.id`.
#[derive(Debug, Clone, Default)]
struct Counters {
    timebase: u32,
    followers: Vec<u32>,
}

impl PerfSessions {
    /// Parses a `PerfSample`.
    pub(super) fn parse(&mut self, sampling: Sampling<'_>, bytes: &[u8]) {
        let Sampling {
            cx,
            ts,
            state,
            stacks,
            contexts,
        } = sampling;
        if self.source.is_null() {
            self.source = cx.store.strings.intern(SOURCE);
            self.modes =
                std::array::from_fn(
                    |mode| match mode_name(CpuMode::of_perf_sample(mode as i32)) {
                        Some(name) => cx.store.strings.intern(name),
                        None => StringId::NULL,
                    },
                );
        }
        let (source, modes) = (self.source, self.modes);
        let content = PerfSample::read(bytes);
        if let PerfSample::Lost(lost) = content {
            let cpu = PerfSampleView::read(bytes).cpu.unwrap_or(0).into();
            cx.store
                .stats
                .add_indexed(Stat::perf_cpu_lost_records, cpu, lost as i64);
            return;
        }
        let cpu = match content {
            PerfSample::Sample(sample) => sample.cpu,
            _ => None,
        };
        let (session, counters) = self.counters(cx, state, cpu.unwrap_or(0));
        let PerfSample::Sample(sample) = content else {
            if let PerfSample::Stopped { is_guardrail: true } = content {
                cx.store
                    .stats
                    .set_indexed(Stat::perf_guardrail_stop_ts, session.into(), ts);
            }
            return;
        };
        match sample.sample_skipped_reason {
            Some(PROFILER_SKIP_READ_STAGE | PROFILER_SKIP_UNWIND_STAGE) => {
                cx.store.stats.add(Stat::perf_samples_skipped, 1);
            }
            Some(PROFILER_SKIP_UNWIND_ENQUEUE) => {
                cx.store.stats.add(Stat::perf_samples_skipped_dataloss, 1);
            }
            _ => {}
        }
        let mut counter_set = CounterSet::default();
        let mut count = |cx: &mut Context, value: u64, track: u32| {
            let (store, args) = (&mut cx.store, &mut ArgSet::default());
            if let Some(counter) = cx.counters.add(store, ts, track, value as f64, args) {
                counter_set.add(cx, counter);
            }
        };
        if let Some(value) = sample.timebase_count {
            count(cx, value, counters.timebase);
        }
        for (value, track) in sample.follower_counts.iter().zip(&counters.followers) {
            count(cx, value, *track);
        }
        let counter_set_id = counter_set.id();
        let (tid, pid) = (sample.tid.unwrap_or(0), sample.pid.unwrap_or(0));
        let (tid, pid) = (tid.into(), pid.into());
        let (utid, upid) = cx.processes.thread_and_process(&mut cx.store, tid, pid);
        let callstack = sample
            .callstack_iid
            .and_then(|iid| stacks.ticket(cx, state, Some(upid), iid));
        let cpu_mode = modes
            .get(sample.cpu_mode.unwrap_or(0) as usize)
            .copied()
            .unwrap_or_default();
        let unwind_error = match sample.unwind_error {
            Some(error) => cx.store.strings.intern(error_name(error)),
            None => StringId::NULL,
        };
        let task = ProfilerTaskContextRow {
            upid: Some(upid),
            utid: Some(utid),
            async_context_id: None,
        };
        let task_context_id = Some(contexts.task(cx, task));
        let ucpu = sample
            .cpu
            .and_then(|cpu| cx.cpus.intern(&mut cx.store, cpu));
        let has_context = ucpu.is_some() || !cpu_mode.is_null();
        let execution_context_id = has_context.then(|| contexts.execution(cx, ucpu, cpu_mode));
        let row = ProfilerSampleRow {
            ts,
            source,
            task_context_id,
            execution_context_id,
            callsite_id: None,
            unwind_error,
            session_id: Some(session),
            counter_set_id,
        };
        cx.store.add_sample(row, callstack);
    }

    /// Returns the session of a sequence, and the counters of one of its CPUs.
    fn counters(&mut self, cx: &mut Context, state: EventState<'_>, cpu: u32) -> (u32, &Counters) {
        let session = self
            .sequences
            .entry(state.state.sequence)
            .or_insert_with(|| {
                let source = cx.store.strings.intern(SOURCE);
                let id = cx.store.tables.profiler_session.push(ProfilerSessionRow {
                    source,
                    timebase_unit: StringId::NULL,
                    cmdline: StringId::NULL,
                });
                Session {
                    id,
                    cpus: FxHashMap::default(),
                }
            });
        if session.cpus.contains_key(&cpu) {
            return (session.id, &session.cpus[&cpu]);
        }
        let defaults = Fields::find(
            trace_packet_defaults::PERF_SAMPLE_DEFAULTS,
            &state.state.defaults.bytes,
        );
        let counters = match defaults.and_then(|defaults| defaults.as_bytes()) {
            Some(defaults) => declared(cx, session.id, cpu, defaults),
            None => {
                // Early profilers had no other counter.
                set_unit(cx, session.id, "ns");
                let name = cx.store.strings.intern("cpu-clock");
                Counters {
                    timebase: track(cx, session.id, cpu, name, true),
                    followers: Vec::new(),
                }
            }
        };
        /// The maximum number of CPUs with stored counters.
        const MAX_CPUS: usize = 1 << 12;
        if session.cpus.len() < MAX_CPUS {
            return (session.id, session.cpus.entry(cpu).or_insert(counters));
        }
        self.other = counters;
        (session.id, &self.other)
    }
}

/// Returns the counters of a CPU that `PerfSampleDefaults` declares.
fn declared(cx: &mut Context, session: u32, cpu: u32, defaults: &[u8]) -> Counters {
    let defaults = PerfSampleDefaultsView::read(defaults);
    let timebase = TimebaseView::read(defaults.timebase.unwrap_or_default());
    let event = PerfEvent::of_timebase(&timebase);
    if let Some(unit) = event.kind.and_then(|kind| kind.unit()) {
        set_unit(cx, session, unit);
    }
    let name = event_name(cx, &event);
    let mut counters = Counters {
        timebase: track(cx, session, cpu, name, true),
        followers: Vec::new(),
    };
    for follower in defaults.followers.iter().take(MAX_FOLLOWERS) {
        let name = event_name(cx, &PerfEvent::of_follower(follower));
        counters
            .followers
            .push(track(cx, session, cpu, name, false));
    }
    let shards = defaults.process_shard_count.unwrap_or(0);
    let shard = defaults.chosen_process_shard.unwrap_or(0);
    if shards > 0 {
        let stats = &mut cx.store.stats;
        stats.set_indexed(
            Stat::perf_process_shard_count,
            session.into(),
            shards.into(),
        );
        stats.set_indexed(
            Stat::perf_chosen_process_shard,
            session.into(),
            shard.into(),
        );
    }
    counters
}

fn set_unit(cx: &mut Context, session: u32, unit: &str) {
    let column = &mut cx.store.tables.profiler_session.timebase_unit;
    if column.get(session).is_null() {
        column.set(session, cx.store.strings.intern(unit));
    }
}

fn track(cx: &mut Context, session: u32, cpu: u32, name: StringId, is_timebase: bool) -> u32 {
    let dimensions = [
        Dimension::Cpu(cpu),
        Dimension::Int("perf_session_id", session.into()),
        Dimension::Text("name", name),
    ];
    let mut source = ArgSet::default();
    source.put(&mut cx.store, "is_timebase", ArgValue::Bool(is_timebase));
    let spec = TrackSpec::counter("perf_cpu_counter", &dimensions).named(name);
    cx.tracks.intern(&mut cx.store, spec.with_source(source))
}

/// Returns the name of an event.
fn event_name(cx: &mut Context, event: &PerfEvent<'_>) -> StringId {
    let own = (!event.name.is_empty()).then_some(Cow::Borrowed(event.name));
    let name = own.or(event.kind.map(|kind| kind.name()));
    let name = name.unwrap_or(Cow::Borrowed(b"unknown"));
    if event.modes.is_empty() {
        return cx.store.strings.intern_bytes(&name);
    }
    let name = format!("{}:{}", String::from_utf8_lossy(&name), event.modes);
    cx.store.strings.intern(&name)
}

/// The number of named modes, including that of none.
const MODES: usize = 6;

/// Returns the name of a `Profiling.StackUnwindError`.
fn error_name(number: i32) -> &'static str {
    match number {
        error::UNWIND_ERROR_NONE => "none",
        error::UNWIND_ERROR_MEMORY_INVALID => "memory_invalid",
        error::UNWIND_ERROR_UNWIND_INFO => "unwind_info",
        error::UNWIND_ERROR_UNSUPPORTED => "unsupported",
        error::UNWIND_ERROR_INVALID_MAP => "invalid_map",
        error::UNWIND_ERROR_MAX_FRAMES_EXCEEDED => "max_frames_exceeded",
        error::UNWIND_ERROR_REPEATED_FRAME => "repeated_frame",
        error::UNWIND_ERROR_INVALID_ELF => "invalid_elf",
        error::UNWIND_ERROR_SYSTEM_CALL => "system_call",
        error::UNWIND_ERROR_THREAD_TIMEOUT => "thread_timeout",
        error::UNWIND_ERROR_THREAD_DOES_NOT_EXIST => "thread_does_not_exist",
        error::UNWIND_ERROR_BAD_ARCH => "bad_arch",
        error::UNWIND_ERROR_MAPS_PARSE => "maps_parse",
        error::UNWIND_ERROR_INVALID_PARAMETER => "invalid_parameter",
        error::UNWIND_ERROR_PTRACE_CALL => "ptrace_call",
        _ => "unknown",
    }
}
