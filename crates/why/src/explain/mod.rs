//! Finds the causes of an interval.

mod waits;

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use ferretto_tables::schema::TableId;
use ferretto_tables::{StringId, TableSet, Trace};
use rustc_hash::FxHashMap;

use crate::evidence::{Evidence, Recorded};
use crate::explanation::{Cause, ExplainedWait, Explanation};
use crate::grouped::Grouped;
use crate::kind::{self, WaitKind};
use crate::limits::Limits;
use crate::missing::{self, Unknown};
use crate::nearby::Nearby;
use crate::partition::{Part, PartKind, Partition};
use crate::schedule::{Run, Schedule, State, StateKind, Waker};
use crate::stacks::{self, Function};
use crate::states;
use crate::threads;

/// The longest time between two system calls that is taken for leaving the one and entering the
/// other, in nanoseconds.
const MAX_ENTRY: i64 = 500;

/// The longest time in which an idle CPU begins to run a thread that was woken, in nanoseconds.
const MAX_WAKEUP: i64 = 3_000_000;

/// The tables that an explanation needs. Of the arguments, those of system calls about locks
/// suffice.
pub const TABLES: TableSet = TableSet::of(&[
    TableId::slice,
    TableId::thread_state,
    TableId::args,
    TableId::counter,
    TableId::cpu,
    TableId::metadata,
    TableId::profiler_sample,
    TableId::profiler_task_context,
    TableId::stack_profile_callsite,
    TableId::stack_profile_frame,
    TableId::stack_profile_mapping,
    TableId::stack_profile_symbol,
]);

/// The states of the threads of a trace, and the events that explain them.
#[derive(Debug)]
pub struct Prepared {
    schedule: Schedule,
    evidence: Evidence,
    recorded: Recorded,
    /// By CPU: the times before a switch in which switches are missing.
    unknown: Grouped<Unknown>,
    /// By callstack.
    stacks: FxHashMap<u32, StackFacts>,
    kernel_threads: Vec<bool>,
    limits: Limits,
}

/// A trace, prepared for explanations.
#[derive(Debug)]
pub struct Why<'a> {
    trace: &'a Trace,
    prepared: Arc<Prepared>,
}

/// The parts of the kernel that a callstack is in.
#[derive(Debug, Clone, Copy)]
struct StackFacts {
    kind: Option<WaitKind>,
    is_page_fault: bool,
    is_call: bool,
    is_kernel: bool,
}

/// An explanation to which the parts of its interval are added, in the order of time.
struct Dividing {
    explanation: Explanation,
    /// The latest run of a CPU that was searched, and the latest sample of a thread.
    runs: Nearby,
    samples: Nearby,
}

impl Dividing {
    fn add(&mut self, part: &Part, time: (i64, i64), cause: Cause, callsite: Option<u32>) {
        self.explanation.add(part, time, cause, callsite);
    }
}

/// The times between the threads that ran on a CPU.
struct Gaps<'a> {
    cpu: u32,
    runs: &'a [Run],
    /// The first of `runs` that can be before or after the times that are asked for.
    first: usize,
}

impl Prepared {
    /// Prepares a trace that has the tables [`TABLES`].
    pub fn new(trace: &Trace) -> Self {
        let (evidence, stacks) = thread::scope(|scope| {
            let states_and_stacks = || {
                // The states of threads are computed on first use.
                let _ = trace.tables().thread_state.len();
                stack_facts(trace)
            };
            let other = thread::Builder::new().spawn_scoped(scope, states_and_stacks);
            let evidence = Evidence::new(trace);
            let stacks = match other.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(stacks)) => stacks,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // Without a thread, the states are computed below.
                Err(_) => stack_facts(trace),
            };
            (evidence, stacks)
        });
        let (schedule, seen) = states::schedule(trace, &evidence);
        Self {
            recorded: Recorded {
                switches: seen.switches,
                wakeups: seen.wakeups,
                ..evidence.recorded()
            },
            schedule,
            evidence,
            unknown: missing::unknown(trace),
            stacks,
            kernel_threads: threads::of_kernel(trace),
            limits: Limits::new(trace),
        }
    }

    /// Returns the maximum bytes of memory of a trace's states and events.
    pub fn max_memory(trace: &Trace) -> usize {
        let tables = trace.tables();
        // Each row of a thread's states is one, and those that run are those of a CPU, too.
        let states = tables.thread_state.len() as usize * (size_of::<State>() + size_of::<Run>());
        let events = Evidence::max_memory(trace);
        states + events + trace.losses().len() * size_of::<Unknown>()
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        let stacks = self.stacks.capacity() * size_of::<(u32, StackFacts)>();
        self.schedule.memory()
            + self.evidence.memory()
            + self.unknown.memory()
            + stacks
            + self.limits.memory()
    }
}

fn stack_facts(trace: &Trace) -> FxHashMap<u32, StackFacts> {
    let samples = &trace.tables().profiler_sample;
    let mut facts = FxHashMap::default();
    for row in 0..samples.len() {
        let Some(callsite) = samples.callsite_id().get(row) else {
            continue;
        };
        facts.entry(callsite).or_insert_with(|| {
            let functions = stacks::waiting_functions(trace, callsite);
            StackFacts {
                kind: kind::of_stack(&functions),
                is_page_fault: kind::is_page_fault(&functions),
                is_call: kind::is_call(&functions),
                is_kernel: functions.first().is_some_and(|first| first.is_kernel),
            }
        });
    }
    facts
}

impl<'a> Why<'a> {
    /// Prepares a trace that has the tables [`TABLES`].
    pub fn new(trace: &'a Trace) -> Self {
        Self::with(trace, Arc::new(Prepared::new(trace)))
    }

    /// Returns explanations of a trace that has been prepared before.
    pub fn with(trace: &'a Trace, prepared: Arc<Prepared>) -> Self {
        Self { trace, prepared }
    }

    /// Returns the trace.
    pub fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// Returns the states of threads.
    pub fn schedule(&self) -> &Schedule {
        &self.prepared.schedule
    }

    /// Returns the times on a CPU in which switches are missing.
    pub(crate) fn unknown(&self, cpu: u32) -> &[Unknown] {
        self.prepared.unknown.of(cpu)
    }

    /// Returns the kinds of data that the trace has.
    pub fn recorded(&self) -> Recorded {
        self.prepared.recorded
    }

    /// Returns true if a thread is the kernel's.
    pub fn is_kernel_thread(&self, thread: u32) -> bool {
        let is_kernel = self.prepared.kernel_threads.get(thread as usize);
        is_kernel.copied().unwrap_or(false)
    }

    /// Returns true if a thread belongs to a program that records.
    pub fn is_recorder(&self, thread: u32) -> bool {
        let process = self.trace.tables().thread.upid().get(thread);
        process.is_some_and(|process| threads::records(self.trace, process))
    }

    /// Returns true if a thread is the first one of a recorded command.
    pub fn is_command(&self, thread: u32) -> bool {
        let tables = self.trace.tables();
        let process = tables.thread.upid().get(thread);
        let Some(process) =
            process.filter(|_| tables.thread.is_main_thread().get(thread) == Some(true))
        else {
            return false;
        };
        if let Some(pid) = threads::command_pid(tables, self.trace.strings()) {
            return tables.process.pid().get(process) == pid;
        }
        let parent = tables.process.parent_upid().get(process);
        parent.is_some_and(|parent| threads::records(self.trace, parent))
    }

    /// Returns the interval in which a thread existed. A command of a recording begins when the
    /// recording lets it.
    pub fn lifetime(&self, thread: u32) -> Range<i64> {
        let is_alive = |kind| !matches!(kind, StateKind::Ended | StateKind::Unborn);
        let states = self.schedule().states(thread).iter();
        let mut alive = states.filter(|state| is_alive(state.kind));
        let held = |state: &State| match state.waker {
            Waker::Thread(waker) if self.is_recorder(waker) => state.end,
            _ => state.start,
        };
        let start = alive.next().map_or(0, held);
        start..alive.next_back().map_or(start, |state| state.end)
    }

    /// Returns the name of a thread, with its number.
    pub fn thread_label(&self, thread: u32) -> String {
        threads::label(self.trace.tables(), self.trace.strings(), thread)
    }

    /// Returns the name of a thread. Empty if it is not known.
    pub fn thread_name(&self, thread: u32) -> &str {
        threads::name(self.trace.tables(), self.trace.strings(), thread)
    }

    /// Returns the functions of a callstack, the innermost first.
    pub fn functions(&self, callsite: u32) -> Vec<Function> {
        stacks::functions(self.trace, callsite)
    }

    /// Returns the functions of the callstack of a wait, without those that switch threads.
    pub fn waiting_functions(&self, callsite: u32) -> Vec<Function> {
        stacks::waiting_functions(self.trace, callsite)
    }

    /// Explains an interval of a thread.
    pub fn explain(&self, thread: u32, interval: Range<i64>) -> Explanation {
        let partition = Partition::new(
            &self.prepared.schedule,
            thread,
            interval.start,
            interval.end,
        );
        let waits = partition.waits.iter().map(|wait| self.wait(wait));
        let mut dividing = Dividing {
            explanation: Explanation {
                thread,
                waits: waits.collect(),
                pieces: Vec::with_capacity(partition.parts.len()),
                interval,
            },
            runs: Nearby::default(),
            samples: Nearby::default(),
        };
        for part in &partition.parts {
            self.divide(part, &mut dividing);
        }
        dividing.explanation
    }

    /// Adds the pieces of a part.
    fn divide(&self, part: &Part, to: &mut Dividing) {
        let cause = match part.kind {
            PartKind::Running => return self.running(part, to),
            PartKind::Runnable => return self.runnable(part, to),
            PartKind::Blocked => {
                let wait = part
                    .wait
                    .and_then(|wait| to.explanation.waits.get(wait as usize));
                wait.map_or(Cause::Lost, ExplainedWait::cause)
            }
            PartKind::Unborn | PartKind::Ended => Cause::Absent,
            PartKind::Lost => Cause::Lost,
            PartKind::TooDeep => Cause::TooDeep,
        };
        to.add(part, (part.start, part.end), cause, None);
    }

    /// Divides a time on a CPU into interrupts, system calls and the rest.
    fn running(&self, part: &Part, to: &mut Dividing) {
        let mut at = part.start;
        let interrupts = part.cpu.map_or(&[][..], |cpu| {
            self.prepared.evidence.interrupts_from(cpu, part.start)
        });
        for interrupt in interrupts {
            if interrupt.start >= part.end {
                break;
            }
            let (start, end) = (interrupt.start.max(at), interrupt.end.min(part.end));
            self.own(part, (at, start), to);
            to.add(part, (start, end), Cause::Interrupt(interrupt.name), None);
            at = end;
        }
        self.own(part, (at, part.end), to);
    }

    /// Divides a time without interrupts.
    fn own(&self, part: &Part, (start, end): (i64, i64), to: &mut Dividing) {
        if start >= end {
            return;
        }
        let mut at = start;
        let (calls, mut before) = self.prepared.evidence.calls_from(part.thread, start);
        for call in calls {
            let is_entry = call.start.saturating_sub(before) <= MAX_ENTRY;
            before = call.end;
            if is_entry {
                let until = call.start.min(end);
                to.add(part, (at, until), Cause::Entry, None);
                at = at.max(until);
            }
            if call.start >= end {
                break;
            }
            let (from, until) = (call.start.max(at), call.end.min(end));
            if from >= until {
                continue;
            }
            self.sampled(part, (at, from), StringId::NULL, to);
            self.sampled(part, (from, until), call.name, to);
            at = until;
        }
        self.sampled(part, (at, end), StringId::NULL, to);
    }

    /// Divides a time in a system call, or in none, by the nearest samples.
    fn sampled(&self, part: &Part, (start, end): (i64, i64), call: StringId, to: &mut Dividing) {
        if start >= end {
            return;
        }
        let is_kernel = self.is_kernel_thread(part.thread);
        let mut samples = to.samples;
        self.prepared.evidence.for_each_sampled(
            part.thread,
            (start, end),
            call,
            &mut samples,
            |from, until, callsite| {
                let stack = callsite.and_then(|callsite| self.prepared.stacks.get(&callsite));
                let cause = match stack {
                    _ if !call.is_null() => Cause::Call(call),
                    _ if is_kernel => Cause::Kernel,
                    Some(stack) if stack.is_page_fault => Cause::PageFault,
                    Some(stack) if stack.is_call => Cause::Entry,
                    // Without system calls, samples tell where it was.
                    Some(stack) if stack.is_kernel => Cause::Kernel,
                    Some(_) => Cause::User,
                    None if self.prepared.recorded.system_calls => Cause::User,
                    None => Cause::Running,
                };
                to.add(part, (from, until), cause, callsite);
            },
        );
        to.samples = samples;
    }

    /// Divides a time of waiting for a CPU by the threads that had it.
    fn runnable(&self, part: &Part, to: &mut Dividing) {
        let Some(cpu) = part.cpu else {
            return to.add(part, (part.start, part.end), Cause::Cpu, None);
        };
        let runs = self.prepared.schedule.runs(cpu);
        let is_before = |run: &Run| run.end <= part.start;
        let first = to.runs.partition_point(cpu, runs, is_before);
        let mut gaps = Gaps { cpu, runs, first };
        let mut at = part.start;
        for (index, run) in runs.iter().enumerate().skip(first) {
            if run.start >= part.end {
                break;
            }
            let (start, end) = (run.start.max(at), run.end.min(part.end));
            if start >= end {
                continue;
            }
            self.not_run(part, &gaps, (at, start), to);
            to.add(part, (start, end), Cause::Behind(run.thread), None);
            (at, gaps.first) = (end, index);
        }
        self.not_run(part, &gaps, (at, part.end), to);
    }

    /// Divides a time in which no thread is known to have run on a CPU: it was idle, unless
    /// switches are missing.
    fn not_run(&self, part: &Part, gaps: &Gaps<'_>, (start, end): (i64, i64), to: &mut Dividing) {
        let all = self.prepared.unknown.of(gaps.cpu);
        let mut at = start;
        for unknown in &all[all.partition_point(|unknown| unknown.end <= start)..] {
            if unknown.start >= end {
                break;
            }
            let from = unknown.start.clamp(at, end);
            self.idle(part, gaps, (at, from), to);
            at = unknown.end.min(end);
            to.add(part, (from, at), Cause::Lost, None);
        }
        self.idle(part, gaps, (at, end), to);
    }

    /// Adds a time in which a CPU was idle while a thread waited for it.
    fn idle(&self, part: &Part, gaps: &Gaps<'_>, (start, end): (i64, i64), to: &mut Dividing) {
        if start >= end {
            return;
        }
        // The whole time in which it was idle, of which this may be a part.
        let gap = gaps.around(start);
        let is_short = |gap: &Range<i64>| gap.end.saturating_sub(gap.start) <= MAX_WAKEUP;
        // The time in which the thread waited for it counts.
        let wait = || {
            let state = self.prepared.schedule.state_at(part.thread, start);
            state.map_or((start, end), |state| (state.start, state.end))
        };
        let is_wakeup = is_short(&gap) || {
            let (from, until) = wait();
            is_short(&(gap.start.max(from)..gap.end.min(until)))
        };
        let cause = if is_wakeup {
            Cause::Wakeup
        } else {
            // The kernel counts the time when the thread may run again: at the end of the wait.
            let process = self.trace.tables().thread.upid().get(part.thread);
            let limits = &self.prepared.limits;
            Cause::Idle(process.and_then(|process| limits.holding(process, wait())))
        };
        to.add(part, (start, end), cause, None);
    }
}

impl Gaps<'_> {
    /// Returns the time between two threads at a time.
    fn around(&self, time: i64) -> Range<i64> {
        let later = &self.runs[self.first..];
        let next = self.first + later.iter().take_while(|run| run.end <= time).count();
        let before = next.checked_sub(1).map(|before| self.runs[before].end);
        let after = self.runs.get(next).map(|next| next.start);
        before.unwrap_or(i64::MIN)..after.unwrap_or(i64::MAX)
    }
}
