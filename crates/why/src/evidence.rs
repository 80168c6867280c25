//! The events of a trace that tell what a thread did in a state: system calls, interrupts,
//! callstacks.

use std::fmt;

use ferretto_tables::schema::ArgValue;
use ferretto_tables::{StringId, Trace};
use rustc_hash::FxHashMap;

use crate::grouped::Grouped;
use crate::nearby::Nearby;
use crate::schedule::State;

/// The time after which a sample says nothing about a thread any more, in nanoseconds.
const SAMPLE_REACH: i64 = 20_000_000;
/// The time by which a callstack of a wait may precede or follow the wait's beginning.
const WAIT_BEFORE: i64 = 2_000_000;
const WAIT_AFTER: i64 = 50_000;

/// A named interval: a system call of a thread, or an interrupt on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) name: StringId,
    pub(crate) args: Option<u32>,
}

/// A callstack of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) time: i64,
    /// The callstack: `stack_profile_callsite.id`.
    pub(crate) callsite: u32,
    /// The system call in which it was taken.
    pub(crate) call: StringId,
}

/// The kinds of data that a trace has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Switches of threads.
    pub switches: bool,
    /// Wake-ups of threads.
    pub wakeups: bool,
    /// System calls.
    pub system_calls: bool,
    /// Interrupts.
    pub interrupts: bool,
    /// Callstacks of running threads.
    pub samples: bool,
    /// Callstacks of waits.
    pub waits: bool,
}

/// A kind of data that a trace lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// The data.
    pub data: &'static str,
    /// The option of `ferretto record` that records it.
    pub option: &'static str,
    /// The things that it tells.
    pub tells: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.data, self.option, self.tells)
    }
}

impl Recorded {
    /// Returns the kinds of data that are missing.
    pub fn missing(&self) -> Vec<Missing> {
        let all = [
            (
                self.switches,
                "switches of threads",
                "--sched",
                "when a thread ran",
            ),
            (self.wakeups, "wake-ups", "--sched", "who ended a wait"),
            (
                self.system_calls,
                "system calls",
                "--syscalls",
                "what a thread waited for",
            ),
            (
                self.waits,
                "callstacks of waits",
                "--off-cpu",
                "where a thread waited",
            ),
            (
                self.samples,
                "callstacks of running threads",
                "--perf",
                "which function ran",
            ),
            (
                self.interrupts,
                "interrupts",
                "--irq",
                "what ended a wait for a device, such as a disk, or a time",
            ),
        ];
        let missing = all.into_iter().filter(|(has, ..)| !has);
        missing
            .map(|(_, data, option, tells)| Missing {
                data,
                option,
                tells,
            })
            .collect()
    }
}

/// The events of a trace that explain the states of its threads.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// By thread, without overlaps.
    calls: Grouped<Span>,
    /// By CPU, without overlaps: of nested interrupts, the innermost.
    interrupts: Grouped<Span>,
    /// By thread.
    samples: Grouped<Sample>,
    /// By thread, at the beginnings of waits.
    waits: Grouped<Sample>,
}

impl Evidence {
    pub(crate) fn new(trace: &Trace) -> Self {
        let (mut calls, mut interrupts) = spans(trace);
        calls.for_each_group(|_, calls| {
            calls.sort_by_key(|call| call.start);
            // A thread is in one call at a time: if another one begins, the exit is missing.
            for next in 1..calls.len() {
                calls[next - 1].end = calls[next - 1].end.min(calls[next].start);
            }
        });
        interrupts.for_each_group(|_, all| all.sort_by_key(|span| span.start));
        let mut evidence = Self {
            calls,
            interrupts: flattened(&interrupts),
            ..Self::default()
        };
        evidence.read_samples(trace);
        evidence
    }

    /// Returns the maximum bytes of memory of a trace's events.
    pub(crate) fn max_memory(trace: &Trace) -> usize {
        let tables = trace.tables();
        let spans = tables.slice.len() as usize * size_of::<Span>();
        spans + tables.profiler_sample.len() as usize * size_of::<Sample>()
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let spans = self.calls.memory() + self.interrupts.memory();
        spans + self.samples.memory() + self.waits.memory()
    }

    fn read_samples(&mut self, trace: &Trace) {
        let tables = trace.tables();
        let rows = &tables.profiler_sample;
        let off_cpu = trace.strings().find("linux.off_cpu");
        let (mut samples, mut waits) = (Grouped::default(), Grouped::default());
        for row in 0..rows.len() {
            let (Some(task), Some(callsite)) =
                (rows.task_context_id().get(row), rows.callsite_id().get(row))
            else {
                continue;
            };
            let Some(thread) = tables.profiler_task_context.utid().get(task) else {
                continue;
            };
            let time = rows.ts().get(row);
            let is_wait = off_cpu.is_some_and(|source| rows.source().get(row) == source);
            let call = self.call_at(thread, time);
            let sample = Sample {
                time,
                callsite,
                call: call.map_or(StringId::NULL, |call| call.name),
            };
            if is_wait {
                waits.push(thread, sample);
            } else {
                samples.push(thread, sample);
            }
        }
        let by_time = |_, samples: &mut Vec<Sample>| samples.sort_by_key(|sample| sample.time);
        for all in [&mut samples, &mut waits] {
            all.shrink();
            all.for_each_group(by_time);
        }
        (self.samples, self.waits) = (samples, waits);
    }

    /// Returns the kinds of data that these events are.
    pub(crate) fn recorded(&self) -> Recorded {
        Recorded {
            system_calls: !self.calls.is_empty(),
            interrupts: !self.interrupts.is_empty(),
            samples: !self.samples.is_empty(),
            waits: !self.waits.is_empty(),
            ..Recorded::default()
        }
    }

    /// Returns the system call that a thread was in.
    pub(crate) fn call_at(&self, thread: u32, time: i64) -> Option<&Span> {
        at(self.calls.of(thread), time)
    }

    /// Returns the system calls of a thread that end after a time, and the end of the one before.
    pub(crate) fn calls_from(&self, thread: u32, time: i64) -> (&[Span], i64) {
        let all = self.calls.of(thread);
        let calls = after(all, time);
        let before = (all.len() - calls.len()).checked_sub(1);
        (calls, before.map_or(i64::MIN, |before| all[before].end))
    }

    /// Returns the interrupts on a CPU that end after a time.
    pub(crate) fn interrupts_from(&self, cpu: u32, time: i64) -> &[Span] {
        after(self.interrupts.of(cpu), time)
    }

    /// Returns the interrupt in progress on a CPU.
    pub(crate) fn interrupt_at(&self, cpu: u32, time: i64) -> Option<&Span> {
        at(self.interrupts.of(cpu), time)
    }

    /// Returns the number of CPUs, including those without interrupts.
    pub(crate) fn cpus(&self) -> u32 {
        self.interrupts.groups()
    }

    /// Returns the callstack with which a thread began to wait.
    pub(crate) fn stack_of_wait(&self, thread: u32, state: &State) -> Option<u32> {
        let all = self.waits.of(thread);
        let next =
            all.partition_point(|sample| sample.time <= state.start.saturating_add(WAIT_AFTER));
        let sample = all.get(next.checked_sub(1)?)?;
        (sample.time >= state.start - WAIT_BEFORE).then_some(sample.callsite)
    }

    /// Returns the callstack of the sample of a running thread that is nearest to a time.
    pub(crate) fn nearest_stack(&self, thread: u32, time: i64) -> Option<u32> {
        let all = self.samples.of(thread);
        let next = all.partition_point(|sample| sample.time < time);
        let near = all[next.saturating_sub(1)..].iter().take(2);
        let distance = |sample: &Sample| sample.time.abs_diff(time);
        let nearest = near.min_by_key(|sample| distance(sample))?;
        (distance(nearest) <= SAMPLE_REACH as u64).then_some(nearest.callsite)
    }

    /// Calls `each` for the parts of an interval in which a thread ran in one system call, or in
    /// none, with the callstack of the nearest sample of the same kind.
    pub(crate) fn for_each_sampled(
        &self,
        thread: u32,
        (start, end): (i64, i64),
        call: StringId,
        nearby: &mut Nearby,
        mut each: impl FnMut(i64, i64, Option<u32>),
    ) {
        let all = self.samples.of(thread);
        let first = start.saturating_sub(SAMPLE_REACH);
        let first = nearby.partition_point(thread, all, |sample| sample.time < first);
        let until = end.saturating_add(SAMPLE_REACH);
        let near = all[first..].iter().take_while(|sample| sample.time < until);
        let mut near = near.filter(|sample| sample.call == call).peekable();
        let (mut at, mut from) = (start, i64::MIN);
        while let Some(sample) = near.next() {
            let to = near
                .peek()
                .map_or(i64::MAX, |next| sample.time + (next.time - sample.time) / 2);
            let nearest_from = from.max(sample.time - SAMPLE_REACH).clamp(at, end);
            let nearest_to = to
                .min(sample.time.saturating_add(SAMPLE_REACH))
                .clamp(nearest_from, end);
            if nearest_from > at {
                each(at, nearest_from, None);
            }
            if nearest_to > nearest_from {
                each(nearest_from, nearest_to, Some(sample.callsite));
            }
            (at, from) = (nearest_to, to);
        }
        if at < end {
            each(at, end, None);
        }
    }
}

/// Returns the span at a time. The spans are in the order of their beginnings, without overlaps.
fn at(spans: &[Span], time: i64) -> Option<&Span> {
    let next = spans.partition_point(|span| span.start <= time);
    let last = spans.get(next.checked_sub(1)?)?;
    (time < last.end).then_some(last)
}

/// Returns the spans that end after a time.
fn after(spans: &[Span], time: i64) -> &[Span] {
    let next = spans.partition_point(|span| span.start <= time);
    let first = match next.checked_sub(1) {
        Some(last) if spans[last].end > time => last,
        _ => next,
    };
    &spans[first..]
}

/// Reads the system calls by thread, and the interrupts by CPU.
fn spans(trace: &Trace) -> (Grouped<Span>, Grouped<Span>) {
    #[derive(Clone, Copy)]
    enum Of {
        Nothing,
        Thread(u32),
        Cpu(u32),
    }
    let (tables, strings) = (trace.tables(), trace.strings());
    let tracks = &tables.track;
    let mut cpus: FxHashMap<(u32, i64), u32> = FxHashMap::default();
    for row in 0..tables.cpu.len() {
        if let Some(cpu) = tables.cpu.cpu().get(row) {
            let machine = tables.cpu.machine_id().get(row);
            cpus.entry((machine, i64::from(cpu))).or_insert(row);
        }
    }
    let of_track: Vec<Of> = (0..tracks.len())
        .map(|row| match strings.text(tracks.type_().get(row)) {
            "thread_execution" => tracks.utid().get(row).map_or(Of::Nothing, Of::Thread),
            "cpu_irq" | "cpu_softirq" => {
                let machine = tracks.machine_id().get(row);
                let cpu = tracks.cpu().get(row).map(i64::from);
                let cpu = cpu.and_then(|cpu| cpus.get(&(machine, cpu)));
                cpu.map_or(Of::Nothing, |cpu| Of::Cpu(*cpu))
            }
            _ => Of::Nothing,
        })
        .collect();
    let slices = &tables.slice;
    let of_slice = |row| {
        let of = of_track.get(slices.track_id().get(row) as usize);
        of.copied().unwrap_or(Of::Nothing)
    };
    let all = (0..slices.len()).map(of_slice);
    let mut calls = Grouped::sized_for(all.clone().filter_map(|of| match of {
        Of::Thread(thread) => Some(thread),
        Of::Cpu(_) | Of::Nothing => None,
    }));
    let mut interrupts = Grouped::sized_for(all.filter_map(|of| match of {
        Of::Cpu(cpu) => Some(cpu),
        Of::Thread(_) | Of::Nothing => None,
    }));
    for row in 0..slices.len() {
        let of = of_slice(row);
        if matches!(of, Of::Nothing) {
            continue;
        }
        let (start, dur) = (slices.ts().get(row), slices.dur().get(row));
        let span = Span {
            start,
            end: match dur {
                0.. => start.saturating_add(dur),
                _ => i64::MAX,
            },
            name: slices.name().get(row),
            args: slices.arg_set_id().get(row),
        };
        match of {
            // Work of the kernel's threads is on these tracks, too.
            Of::Thread(thread) if strings.text(span.name).starts_with("sys_") => {
                calls.push(thread, span);
            }
            // One without an end says nothing.
            Of::Cpu(cpu) if dur >= 0 => interrupts.push(cpu, span),
            Of::Thread(_) | Of::Cpu(_) | Of::Nothing => {}
        }
    }
    calls.shrink();
    interrupts.shrink();
    (calls, interrupts)
}

/// Returns spans without overlaps: at each time, the span that began last.
fn flattened(spans: &Grouped<Span>) -> Grouped<Span> {
    let mut flat = Grouped::default();
    for cpu in 0..spans.groups() {
        let mut open: Vec<Span> = Vec::new();
        let mut at = i64::MIN;
        let mut close = |open: &mut Vec<Span>, at: &mut i64, until: i64| {
            while let Some(top) = open.last().copied() {
                let end = top.end.min(until);
                let start = top.start.max(*at);
                if start < end {
                    flat.push(cpu, Span { start, end, ..top });
                }
                *at = end.max(*at);
                if top.end > until {
                    return;
                }
                open.pop();
            }
        };
        for span in spans.of(cpu) {
            close(&mut open, &mut at, span.start);
            open.push(*span);
        }
        close(&mut open, &mut at, i64::MAX);
    }
    flat.shrink();
    flat
}

/// Returns the first argument of a system call, such as the address of a lock.
pub(crate) fn first_argument(trace: &Trace, set: u32) -> Option<u64> {
    let strings = trace.strings();
    let mut args = trace.tables().args.set(set);
    let first = args.find(|arg| strings.text(arg.key) == "args[0]")?;
    match first.value {
        ArgValue::Int(value) => Some(value as u64),
        ArgValue::Uint(value) | ArgValue::Pointer(value) => Some(value),
        _ => None,
    }
}

/// Returns the part of a system call's name after `sys_`.
pub(crate) fn call_name(name: &str) -> &str {
    name.strip_prefix("sys_").unwrap_or(name)
}
