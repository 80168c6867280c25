//! Samples of the callstack profiler: `PerfSample`.

use ferretto_format::CpuMode;
use ferretto_format::sample::PerfSample;
use ferretto_proto::fields::{
    follower_event, perf_events, perf_sample_defaults, trace_packet_defaults,
};
use ferretto_proto::views::PerfSampleView;
use ferretto_proto::views::perf_events::counter as counter_of;
use ferretto_proto::views::perf_sample::sample_skip_reason::{
    PROFILER_SKIP_READ_STAGE, PROFILER_SKIP_UNWIND_ENQUEUE, PROFILER_SKIP_UNWIND_STAGE,
};
use ferretto_proto::views::profiling::stack_unwind_error as error;
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
    let mut counters = Counters::default();
    let mut timebase = &[][..];
    let (mut shards, mut shard) = (0, 0);
    let mut followers = Vec::new();
    for field in Fields::new(defaults).map_while(Result::ok) {
        match field.number {
            perf_sample_defaults::TIMEBASE => timebase = field.as_bytes().unwrap_or_default(),
            perf_sample_defaults::FOLLOWERS if followers.len() < MAX_FOLLOWERS => {
                followers.push(field.as_bytes().unwrap_or_default());
            }
            perf_sample_defaults::PROCESS_SHARD_COUNT => shards = field.as_u32().unwrap_or(0),
            perf_sample_defaults::CHOSEN_PROCESS_SHARD => shard = field.as_u32().unwrap_or(0),
            _ => {}
        }
    }
    let event = Event::of_timebase(timebase);
    if let Some(unit) = event.unit() {
        set_unit(cx, session, unit);
    }
    let name = event.name(cx);
    counters.timebase = track(cx, session, cpu, name, true);
    for follower in followers {
        let name = Event::of_follower(follower).name(cx);
        counters
            .followers
            .push(track(cx, session, cpu, name, false));
    }
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

/// A counted event, as declared in the trace.
#[derive(Debug, Default)]
struct Event<'a> {
    name: &'a [u8],
    counter: Option<i32>,
    tracepoint: Option<&'a [u8]>,
    raw: Option<&'a [u8]>,
    /// The modifiers as letters.
    modifiers: String,
}

/// The field numbers of a declaration.
struct EventFields {
    name: u32,
    counter: u32,
    tracepoint: u32,
    raw: u32,
    modifiers: u32,
}

impl<'a> Event<'a> {
    fn of_timebase(bytes: &'a [u8]) -> Self {
        use perf_events::timebase as of;
        let fields = EventFields {
            name: of::NAME,
            counter: of::COUNTER,
            tracepoint: of::TRACEPOINT,
            raw: of::RAW_EVENT,
            modifiers: of::MODIFIERS,
        };
        Self::read(bytes, &fields)
    }

    fn of_follower(bytes: &'a [u8]) -> Self {
        use follower_event as of;
        let fields = EventFields {
            name: of::NAME,
            counter: of::COUNTER,
            tracepoint: of::TRACEPOINT,
            raw: of::RAW_EVENT,
            modifiers: of::MODIFIERS,
        };
        Self::read(bytes, &fields)
    }

    fn read(bytes: &'a [u8], of: &EventFields) -> Self {
        let mut event = Self::default();
        for field in Fields::new(bytes).map_while(Result::ok) {
            let number = field.number;
            if number == of.name {
                event.name = field.as_bytes().unwrap_or_default();
            } else if number == of.counter {
                event.counter = field.as_u64().map(|number| number as i32);
            } else if number == of.tracepoint {
                event.tracepoint = field.as_bytes();
            } else if number == of.raw {
                event.raw = field.as_bytes();
            } else if number == of.modifiers {
                for modifier in field.as_varints().take(8) {
                    event.modifiers.push_str(match modifier {
                        1 => "u",
                        2 => "k",
                        3 => "h",
                        _ => "",
                    });
                }
            }
        }
        event
    }

    fn unit(&self) -> Option<&'static str> {
        Some(match self.counter {
            Some(counter_of::SW_CPU_CLOCK | counter_of::SW_TASK_CLOCK) => "ns",
            Some(
                counter_of::HW_CPU_CYCLES
                | counter_of::HW_BUS_CYCLES
                | counter_of::HW_REF_CPU_CYCLES,
            ) => "cycles",
            Some(counter_of::HW_INSTRUCTIONS) => "instructions",
            Some(_) => "count",
            None if self.tracepoint.is_some() => "count",
            None => return None,
        })
    }

    fn name(&self, cx: &mut Context) -> StringId {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut name = if !self.name.is_empty() {
            text(self.name)
        } else if let Some(counter) = self.counter {
            counter_name(counter).to_owned()
        } else if let Some(tracepoint) = self.tracepoint {
            let name = Fields::find(perf_events::tracepoint::NAME, tracepoint);
            text(name.and_then(|name| name.as_bytes()).unwrap_or_default())
        } else if let Some(raw) = self.raw {
            use perf_events::raw_event as of;
            let number = |field| {
                Fields::find(field, raw)
                    .and_then(|f| f.as_u64())
                    .unwrap_or(0)
            };
            let kind = number(of::TYPE) as u32;
            let (config, config1, config2) =
                (number(of::CONFIG), number(of::CONFIG1), number(of::CONFIG2));
            format!("raw.{kind:#x}.{config:#x}.{config1:#x}.{config2:#x}")
        } else {
            "unknown".to_owned()
        };
        if !self.modifiers.is_empty() {
            name = format!("{name}:{}", self.modifiers);
        }
        cx.store.strings.intern(&name)
    }
}

/// Returns the name of a counter in the tool `perf`.
fn counter_name(counter: i32) -> &'static str {
    match counter {
        counter_of::SW_CPU_CLOCK => "cpu-clock",
        counter_of::SW_PAGE_FAULTS => "page-faults",
        counter_of::SW_TASK_CLOCK => "task-clock",
        counter_of::SW_CONTEXT_SWITCHES => "context-switches",
        counter_of::SW_CPU_MIGRATIONS => "cpu-migrations",
        counter_of::SW_PAGE_FAULTS_MIN => "minor-faults",
        counter_of::SW_PAGE_FAULTS_MAJ => "major-faults",
        counter_of::SW_ALIGNMENT_FAULTS => "alignment-faults",
        counter_of::SW_EMULATION_FAULTS => "emulation-faults",
        counter_of::HW_CPU_CYCLES => "cpu-cycles",
        counter_of::HW_INSTRUCTIONS => "instructions",
        counter_of::HW_CACHE_REFERENCES => "cache-references",
        counter_of::HW_CACHE_MISSES => "cache-misses",
        counter_of::HW_BRANCH_INSTRUCTIONS => "branch-instructions",
        counter_of::HW_BRANCH_MISSES => "branch-misses",
        counter_of::HW_BUS_CYCLES => "bus-cycles",
        counter_of::HW_STALLED_CYCLES_FRONTEND => "stalled-cycles-frontend",
        counter_of::HW_STALLED_CYCLES_BACKEND => "stalled-cycles-backend",
        counter_of::HW_REF_CPU_CYCLES => "ref-cycles",
        counter_of::SW_DUMMY => "dummy",
        _ => "unknown",
    }
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
