//! The threads of a trace and their states.

use ferretto_tables::schema::{Tables, ThreadStateTable};
use ferretto_tables::{StringId, StringPool, Trace};
use ferretto_trace::summary::{COMMAND_ATTRIBUTE, COMMAND_PID_ATTRIBUTE};

use crate::evidence::{Evidence, call_name};
use crate::grouped::Grouped;
use crate::kind;
use crate::missing::add_known_runs;
use crate::schedule::{Schedule, State, StateKind, Waker};

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
    // Rows are in the order of time.
    let mut running: Vec<(u32, u32)> = Vec::new();
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
            start,
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
        if kind == StateKind::Running {
            running.push((thread, states.len() as u32));
        }
        *before = Some(Open {
            index: states.len(),
            has_end: dur >= 0,
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
        if let Some(open) = open.filter(|open| !open.has_end) {
            let state = &mut states.group(thread)[open.index];
            state.end = last_time.max(state.start);
        }
    }
    states.for_each_group(|_, states| {
        for state in states {
            if state.start == i64::MIN {
                state.start = first_time.min(state.end);
            }
        }
    });
    let are_moved = add_known_runs(trace, &mut states);
    states.shrink();
    let schedule = if are_moved {
        Schedule::of(states)
    } else {
        Schedule::in_order(states, &running)
    };
    (schedule, seen)
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

/// Returns the process of the recorded command, as the recording tells.
pub fn command_pid(tables: &Tables, strings: &StringPool) -> Option<i64> {
    let metadata = &tables.metadata;
    (0..metadata.len()).find_map(|row| {
        let name = strings.text(metadata.name().get(row));
        let key = name.strip_prefix("trace_attribute.")?;
        let value = metadata.int_value().get(row);
        value.filter(|_| key == COMMAND_PID_ATTRIBUTE)
    })
}

/// Returns for each thread if it is the kernel's.
pub(crate) fn of_kernel(trace: &Trace) -> Vec<bool> {
    let tables = trace.tables();
    let process_is_kernels = |process: u32| {
        let parent = tables.process.parent_upid().get(process);
        let parent_pid = parent.map(|parent| tables.process.pid().get(parent));
        parent_pid == Some(2) || tables.process.pid().get(process) == 2
    };
    (0..tables.thread.len())
        .map(|row| {
            let process = tables.thread.upid().get(row);
            process.is_some_and(process_is_kernels)
        })
        .collect()
}

/// Returns the name of the program of the recorded command, as the recording tells.
fn command_name<'a>(tables: &Tables, strings: &'a StringPool) -> Option<&'a str> {
    let metadata = &tables.metadata;
    let command = (0..metadata.len()).find_map(|row| {
        let name = strings.text(metadata.name().get(row));
        let key = name.strip_prefix("trace_attribute.")?;
        let value = strings.get(metadata.str_value().get(row));
        value.filter(|_| key == COMMAND_ATTRIBUTE)
    })?;
    let program = command.split(' ').next()?;
    program.rsplit('/').next().filter(|name| !name.is_empty())
}

/// Returns true for the names of a command before it runs its program.
pub fn is_launcher(name: &str) -> bool {
    matches!(name, "ferretto" | "exe")
}

/// Returns the name of a thread. That of a command that ends soon can be the one that it had before
/// it ran its program: then it is the program's. Empty if it is not known.
pub(crate) fn name<'a>(tables: &Tables, strings: &'a StringPool, thread: u32) -> &'a str {
    let name = strings.text(tables.thread.name().get(thread));
    let is_command = || {
        let process = tables.thread.upid().get(thread);
        let pid = process.map(|process| tables.process.pid().get(process));
        pid == Some(tables.thread.tid().get(thread)) && pid == command_pid(tables, strings)
    };
    let program = (is_launcher(name) && is_command()).then(|| command_name(tables, strings));
    program.flatten().unwrap_or(name)
}

/// Returns the name of a thread, with its number.
pub(crate) fn label(tables: &Tables, strings: &StringPool, thread: u32) -> String {
    let tid = tables.thread.tid().get(thread);
    match name(tables, strings, thread) {
        "" => format!("thread {tid}"),
        name => format!("{name} ({tid})"),
    }
}

/// Returns true if a process is a program that records.
pub(crate) fn records(trace: &Trace, process: u32) -> bool {
    let name = trace.tables().process.name().get(process);
    let name = trace.strings().text(name);
    let program = name.rsplit('/').next().unwrap_or(name);
    program.starts_with("ferretto") || program.starts_with("traced") || program == "perfetto"
}
