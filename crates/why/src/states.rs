//! The states of the threads of a trace.

use ferretto_tables::schema::ThreadStateTable;
use ferretto_tables::{StringId, StringPool, Trace};

use crate::evidence::{Evidence, call_name};
use crate::grouped::Grouped;
use crate::kind;
use crate::missing::add_known_runs;
use crate::schedule::{Run, Schedule, State, StateKind, Waker};

/// The time between the creation of a thread and its first event, in nanoseconds.
const CREATION: i64 = 1_000_000;

/// The kinds of scheduling events of a trace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) switches: bool,
    pub(crate) wakeups: bool,
}

/// The parts of a row of `thread_state` that all states have.
#[derive(Debug, Clone, Copy)]
struct Row {
    start: i64,
    dur: i64,
    thread: u32,
    state: StringId,
    waker: Option<u32>,
    irq_context: Option<bool>,
    cpu: Option<u32>,
}

fn rows(table: &ThreadStateTable) -> impl Iterator<Item = Row> {
    let times = table.ts().iter().zip(table.dur().iter());
    let states = table.utid().iter().zip(table.state().iter());
    let wakers = table.waker_utid().iter().zip(table.irq_context().iter());
    let all = times.zip(states).zip(wakers.zip(table.ucpu().iter()));
    all.map(|((time, state), (waker, cpu))| Row {
        start: time.0,
        dur: time.1,
        thread: state.0,
        state: state.1,
        waker: waker.0,
        irq_context: waker.1,
        cpu,
    })
}

/// The beginning of a row of `thread_state`.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its index among the states of its thread.
    index: usize,
    has_end: bool,
    /// The CPU on which the thread ran, and the index of the run among those of the CPU.
    run: Option<(u32, usize)>,
}

/// Returns the states of all threads.
pub(crate) fn schedule(trace: &Trace, evidence: &Evidence) -> (Schedule, Seen) {
    let (tables, strings) = (trace.tables(), trace.strings());
    let table: &ThreadStateTable = &tables.thread_state;
    let mut seen = Seen::default();
    let threads = tables.thread.len();
    let utids = table.utid().iter().filter(|thread| *thread < threads);
    // A thread may have one state more than rows.
    let mut states: Grouped<State> = Grouped::sized_for(utids.chain(0..threads));
    // Rows are in the order of time, and so are the runs of a CPU.
    let mut runs: Grouped<Run> = Grouped::default();
    let mut last: Vec<Option<Open>> = vec![None; threads as usize];
    let (mut first_time, mut last_time) = (i64::MAX, i64::MIN);
    // Threads that only run work of interrupts.
    let is_interrupt: Vec<bool> = (0..threads)
        .map(|row| {
            let name = strings.text(tables.thread.name().get(row));
            let of_kernel = name.starts_with("ksoftirqd/") || name.starts_with("irq/");
            of_kernel || tables.thread.is_idle().get(row)
        })
        .collect();
    for (number, row) in (0..).zip(rows(table)) {
        let Row {
            mut start,
            dur,
            thread,
            waker,
            cpu,
            ..
        } = row;
        let text = strings.text(row.state);
        let kind = match text.as_bytes() {
            b"Running" => StateKind::Running,
            [b'R', ..] => StateKind::Runnable,
            [b'X' | b'Z', ..] => StateKind::Ended,
            [letter, ..] => StateKind::Blocked(*letter),
            [] => StateKind::Lost,
        };
        let end = start.saturating_add(dur.max(0));
        (first_time, last_time) = (first_time.min(start), last_time.max(end));
        seen.switches |= kind == StateKind::Running;
        seen.wakeups |= waker.is_some();
        let Some(before) = last.get_mut(thread as usize) else {
            continue;
        };
        let waker = waker.map_or(Waker::Unknown, |waker| {
            let is_interrupt = is_interrupt.get(waker as usize).copied().unwrap_or(true);
            let from_interrupt = row.irq_context == Some(true);
            if !is_interrupt && !from_interrupt {
                return Waker::Thread(waker);
            }
            let cpu = table.waker_id().get(number);
            let cpu = cpu.and_then(|running| table.ucpu().get(running));
            if !is_interrupt && delivers(strings, evidence, waker, cpu, start) {
                return Waker::Thread(waker);
            }
            Waker::Interrupt(cpu)
        });
        let states = states.group(thread);
        match before {
            Some(open) => {
                let before = &mut states[open.index];
                // A row without an end, if another one follows, lacks its next event.
                if !open.has_end {
                    before.end = start;
                    before.kind = StateKind::Lost;
                }
                match (before.kind, kind) {
                    (StateKind::Blocked(_), StateKind::Runnable) => before.waker = waker,
                    (StateKind::Runnable, StateKind::Running) => before.cpu = cpu,
                    _ => {}
                }
                // States of a thread do not overlap.
                start = start.max(before.start);
                before.end = before.end.clamp(before.start, start);
                end_run(&mut runs, *open, before.end);
            }
            // The first event of a thread: it is created, or woken from a wait that began before
            // the trace.
            None if kind == StateKind::Runnable && waker != Waker::Unknown => {
                let created = tables.thread.start_ts().get(thread);
                let is_new = created.is_some_and(|at| (start - at).abs() <= CREATION);
                let state = State {
                    start: i64::MIN,
                    end: start,
                    kind: if is_new {
                        StateKind::Unborn
                    } else {
                        StateKind::Blocked(b'?')
                    },
                    cpu: None,
                    waker,
                };
                states.push(state);
            }
            None => {}
        }
        let run = cpu.filter(|_| kind == StateKind::Running).map(|cpu| {
            let runs = runs.group(cpu);
            runs.push(Run { start, end, thread });
            (cpu, runs.len() - 1)
        });
        *before = Some(Open {
            index: states.len(),
            has_end: dur >= 0,
            run,
        });
        let state = State {
            start,
            end,
            kind,
            cpu,
            waker: Waker::Unknown,
        };
        states.push(state);
    }
    // States without an end last until the end of the trace.
    let last_time = last_time.max(tables.trace_bounds.end_ts().get(0));
    for (thread, open) in (0..).zip(last) {
        let Some(open) = open else {
            continue;
        };
        let state = &mut states.group(thread)[open.index];
        if !open.has_end {
            state.end = last_time;
        }
        state.end = state.end.max(state.start);
        end_run(&mut runs, open, state.end);
    }
    states.for_each_group(|_, states| {
        if let Some(first) = states.first_mut().filter(|first| first.start == i64::MIN) {
            first.start = first_time.min(first.end);
        }
    });
    let are_moved = add_known_runs(trace, &mut states);
    states.shrink();
    let schedule = if are_moved {
        Schedule::of(states)
    } else {
        runs.shrink();
        Schedule::with_runs(states, runs)
    };
    (schedule, seen)
}

/// Ends the run of a state.
#[inline]
fn end_run(runs: &mut Grouped<Run>, of: Open, end: i64) {
    if let Some((cpu, index)) = of.run {
        runs.group(cpu)[index].end = end;
    }
}

/// Returns true if a thread that an interrupt had interrupted ended a wait itself, as with sockets
/// of the same machine: a system call that sends delivers in a soft interrupt of the sender.
fn delivers(
    strings: &StringPool,
    evidence: &Evidence,
    thread: u32,
    cpu: Option<u32>,
    time: i64,
) -> bool {
    let call = evidence.call_at(thread, time);
    if !call.is_some_and(|call| kind::sends(call_name(strings.text(call.name)))) {
        return false;
    }
    // Without interrupts in the trace, the call decides. With them, one without a name is that of
    // a timer: the kernel does not tell of those.
    if !evidence.recorded().interrupts {
        return true;
    }
    let interrupt = cpu.and_then(|cpu| evidence.interrupt_at(cpu, time));
    interrupt.is_some_and(|interrupt| kind::delivers(strings.text(interrupt.name)))
}
