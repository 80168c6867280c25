//! The state of a machine from its kernel events: running and waiting threads, open intervals, and
//! the values of counters.

mod opening;

use std::collections::{BTreeMap, BTreeSet};

use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_proto::fields::ftrace_event as event;
use ferretto_proto::fields::{
    block_io_start_ftrace_event as block, clk_set_rate_ftrace_event as clk,
    clock_set_rate_ftrace_event as clock, cpu_idle_ftrace_event as of_cpu,
    print_ftrace_event as print, rss_stat_ftrace_event as rss,
    sched_blocked_reason_ftrace_event as blocked, sched_process_exit_ftrace_event as exit,
    sched_process_free_ftrace_event as free, sched_switch_ftrace_event as switch,
    sched_waking_ftrace_event as waking, task_newtask_ftrace_event as newtask,
};
use ferretto_wire::{Fields, encode};

use super::stack::Stack;
use crate::bundle::{Bundle, Event};
use crate::state::sequence::Writer;

/// Bits of `prev_state` of threads that have exited.
const DEAD: u64 = 0x30;
/// The maximum number of stored wake-ups of a thread, the first one and the newest. It may become
/// known later that the thread ran at their time.
const MAX_WAKEUPS: usize = 8;

/// The intervals: the field numbers of their begin and end events, and their owners.
const INTERVALS: [(u32, u32, Owner); 12] = [
    (event::SYS_ENTER, event::SYS_EXIT, Owner::Thread),
    (
        event::IRQ_HANDLER_ENTRY,
        event::IRQ_HANDLER_EXIT,
        Owner::Cpu,
    ),
    (event::SOFTIRQ_ENTRY, event::SOFTIRQ_EXIT, Owner::Cpu),
    (
        event::LOCAL_TIMER_ENTRY,
        event::LOCAL_TIMER_EXIT,
        Owner::Cpu,
    ),
    (
        event::HRTIMER_EXPIRE_ENTRY,
        event::HRTIMER_EXPIRE_EXIT,
        Owner::Cpu,
    ),
    (event::IPI_ENTRY, event::IPI_EXIT, Owner::Cpu),
    (
        event::NAPI_GRO_RECEIVE_ENTRY,
        event::NAPI_GRO_RECEIVE_EXIT,
        Owner::Cpu,
    ),
    (
        event::WORKQUEUE_EXECUTE_START,
        event::WORKQUEUE_EXECUTE_END,
        Owner::Thread,
    ),
    (
        event::MM_VMSCAN_DIRECT_RECLAIM_BEGIN,
        event::MM_VMSCAN_DIRECT_RECLAIM_END,
        Owner::Thread,
    ),
    (event::BLOCK_IO_START, event::BLOCK_IO_DONE, Owner::Request),
    (
        event::BLOCK_RQ_ISSUE,
        event::BLOCK_RQ_COMPLETE,
        Owner::Request,
    ),
    (
        event::BLOCK_RQ_ISSUE,
        event::BLOCK_RQ_REQUEUE,
        Owner::Request,
    ),
];

/// The owner of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Thread,
    Cpu,
    Request,
}

/// The state of a thread after its last context switch.
#[derive(Debug, Default)]
struct Task {
    /// The time of its last event other than wake-ups.
    time: u64,
    /// The CPU on which it last ran, or where it was first woken.
    cpu: u32,
    comm: Vec<u8>,
    priority: u64,
    state: TaskState,
    /// The encoded wake-ups and blocked reasons since then, with their times, in order.
    wakeups: Vec<(u64, Vec<u8>)>,
}

/// The state of a thread, without the effect of wake-ups.
#[derive(Debug, Default)]
enum TaskState {
    /// No event was seen, or it has exited.
    #[default]
    Unknown,
    /// Created by this event; it has not run.
    New(Vec<u8>),
    Running,
    /// Not running, with this `prev_state`.
    Waiting(u64),
}

/// An event that is valid until the next one with the same key.
#[derive(Debug)]
struct Held {
    time: u64,
    cpu: u32,
    /// `None` if it was ended.
    event: Option<Vec<u8>>,
}

/// The key of such an event: its field number, the id of its owner, and a name or further ids.
type Key = (u32, u64, Vec<u8>);

/// The kernel state of one machine.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The writer of its events.
    writer: Writer,
    budget: Budget,
    /// The running thread of each CPU.
    running: BTreeMap<u32, u64>,
    tasks: BTreeMap<u64, Task>,
    held: BTreeMap<Key, Held>,
    /// Open intervals that programs wrote to the trace marker, by thread.
    marks: BTreeMap<u64, Stack<(u32, Vec<u8>)>>,
    /// The time of the last event of each CPU.
    last: BTreeMap<u32, u64>,
    /// The CPUs with at least one bundle.
    seen: BTreeSet<u32>,
    /// The time since which the events of all CPUs are complete. Readers ignore earlier events for
    /// the state.
    complete_from: u64,
    /// Threads that ended since the last [`take_ended`](Self::take_ended), with their end times.
    ended: Vec<(u64, u64)>,
}

impl Kernel {
    pub(crate) fn new(writer: Writer, budget: &Budget) -> Self {
        Self {
            writer,
            budget: budget.clone(),
            running: BTreeMap::new(),
            tasks: BTreeMap::new(),
            held: BTreeMap::new(),
            marks: BTreeMap::new(),
            last: BTreeMap::new(),
            seen: BTreeSet::new(),
            complete_from: 0,
            ended: Vec::new(),
        }
    }

    /// Adds the events of a bundle before `until`. Calls `each` with the times of all events.
    pub(crate) fn add(&mut self, bundle: &Bundle<'_>, until: u64, mut each: impl FnMut(u64)) {
        let cpu = bundle.cpu;
        if self.seen.insert(cpu) {
            self.complete_from = bundle.begin.unwrap_or(0).max(self.complete_from);
        }
        bundle.events(|time, event| {
            each(time);
            if time >= until {
                return;
            }
            let last = self.last.entry(cpu).or_default();
            *last = time.max(*last);
            match event {
                Event::Switch(state, pid, priority, comm) => {
                    let before = self.running.get(&cpu).copied();
                    self.switch(cpu, time, before, state, (pid, priority, comm));
                }
                Event::Waking(pid, target, priority, comm, flags) => {
                    // Readers also ignore a wake-up without a waker.
                    let Some(waker) = self.running.get(&cpu).copied() else {
                        return;
                    };
                    let encoded = encode(|out| {
                        out.varint(event::TIMESTAMP, 0);
                        out.varint(event::PID, waker);
                        if flags != 0 {
                            out.varint(event::COMMON_FLAGS, flags);
                        }
                        out.nested(event::SCHED_WAKING, |out| {
                            out.bytes(waking::COMM, comm);
                            out.varint(waking::PID, pid);
                            out.varint(waking::PRIO, priority);
                            out.varint(waking::SUCCESS, 1);
                            out.varint(waking::TARGET_CPU, target);
                        });
                    });
                    self.add_wakeup(pid, (time, cpu), encoded);
                }
                Event::Full(bytes) => self.event(cpu, time, bytes),
            }
        });
    }

    fn event(&mut self, cpu: u32, time: u64, bytes: &[u8]) {
        let pid = number(bytes, event::PID);
        let known = [event::TIMESTAMP, event::PID, event::COMMON_FLAGS];
        let body = Fields::new(bytes)
            .map_while(Result::ok)
            .find(|field| !known.contains(&field.number));
        let Some((kind, body)) = body.and_then(|it| Some((it.number, it.as_bytes()?))) else {
            return;
        };
        match kind {
            event::SCHED_SWITCH => {
                let next = (
                    number(body, switch::NEXT_PID),
                    number(body, switch::NEXT_PRIO),
                    text(body, switch::NEXT_COMM),
                );
                let before = number(body, switch::PREV_PID);
                let state = number(body, switch::PREV_STATE);
                self.switch(cpu, time, Some(before), state, next);
                if let Some(task) = self.tasks.get_mut(&before) {
                    task.priority = number(body, switch::PREV_PRIO);
                    task.comm = text(body, switch::PREV_COMM).to_vec();
                }
            }
            event::SCHED_WAKING => {
                self.add_wakeup(number(body, waking::PID), (time, cpu), bytes.to_vec());
            }
            event::SCHED_BLOCKED_REASON => {
                self.add_wakeup(number(body, blocked::PID), (time, cpu), bytes.to_vec());
            }
            event::SCHED_PROCESS_EXIT => {
                let pid = number(body, exit::PID);
                self.end_call(pid, cpu, time);
            }
            event::SCHED_PROCESS_FREE => {
                let pid = number(body, free::PID);
                self.end_call(pid, cpu, time);
                self.set_state(pid, (time, cpu), TaskState::Unknown);
                self.ended.push((pid, time));
            }
            event::TASK_NEWTASK => {
                let new = number(body, newtask::PID);
                let state = TaskState::New(bytes.to_vec());
                if let Some(task) = self.set_state(new, (time, cpu), state) {
                    task.comm = text(body, newtask::COMM).to_vec();
                }
            }
            event::CPU_FREQUENCY | event::CPU_FREQUENCY_LIMITS | event::CPU_IDLE => {
                let key = (kind, number(body, of_cpu::CPU_ID), Vec::new());
                self.hold(key, cpu, time, Some(bytes));
            }
            event::CLK_SET_RATE | event::CLK_ENABLE | event::CLK_DISABLE => {
                let key = (event::CLK_SET_RATE, 0, text(body, clk::NAME).to_vec());
                self.hold(key, cpu, time, Some(bytes));
            }
            event::CLOCK_SET_RATE => {
                let key = (kind, 0, text(body, clock::NAME).to_vec());
                self.hold(key, cpu, time, Some(bytes));
            }
            event::RSS_STAT => {
                let of = number(body, rss::MM_ID).to_le_bytes();
                let key = (kind, number(body, rss::MEMBER), of.to_vec());
                self.hold(key, cpu, time, Some(bytes));
            }
            event::PRINT => self.mark(cpu, time, pid, text(body, print::BUF), bytes),
            _ => {
                let interval = INTERVALS
                    .iter()
                    .find(|(begin, end, _)| *begin == kind || *end == kind);
                let Some(&(begin, _, owner)) = interval else {
                    return;
                };
                let of = match owner {
                    Owner::Thread => (pid, Vec::new()),
                    Owner::Cpu => (cpu.into(), Vec::new()),
                    Owner::Request => {
                        let sector = number(body, block::SECTOR).to_le_bytes();
                        (number(body, block::DEV), sector.to_vec())
                    }
                };
                let held = (begin == kind).then_some(bytes);
                self.hold((begin, of.0, of.1), cpu, time, held);
            }
        }
    }

    /// Handles a context switch from `before`, if known, to another thread.
    fn switch(
        &mut self,
        cpu: u32,
        time: u64,
        before: Option<u64>,
        state: u64,
        (pid, priority, comm): (u64, u64, &[u8]),
    ) {
        if let Some(running) = self.running.get(&cpu).copied()
            && before.is_some_and(|before| before != running)
        {
            self.end_unseen(running, (time, cpu));
        }
        if let Some(before) = before.filter(|pid| *pid != 0) {
            // The entry stays, because older events from other CPUs may follow.
            let state = match state & DEAD {
                0 => TaskState::Waiting(state),
                _ => TaskState::Unknown,
            };
            self.set_state(before, (time, cpu), state);
        }
        if pid != 0
            && let Some(task) = self.set_state(pid, (time, cpu), TaskState::Running)
        {
            task.comm = comm.to_vec();
            task.priority = priority;
        }
        self.running.insert(cpu, pid);
    }

    /// Ends the time of a running thread whose switch the kernel left out. Like readers, ignores
    /// its earlier wake-ups.
    fn end_unseen(&mut self, pid: u64, (time, cpu): (u64, u32)) {
        let task = self.tasks.get(&pid);
        if task.is_some_and(|task| task.cpu == cpu && matches!(task.state, TaskState::Running)) {
            self.set_state(pid, (time, cpu), TaskState::Unknown);
        }
    }

    /// Changes the state of a thread. Returns the thread unless the event is outdated or the memory
    /// limit is reached.
    fn set_state(
        &mut self,
        pid: u64,
        (time, cpu): (u64, u32),
        state: TaskState,
    ) -> Option<&mut Task> {
        let task = self.task(pid, cpu)?;
        (task.time <= time).then(|| {
            (task.time, task.cpu, task.state) = (time, cpu, state);
            task.wakeups.retain(|(at, _)| *at > time);
            task
        })
    }

    /// Returns a thread, adding it if the memory limit allows.
    fn task(&mut self, pid: u64, cpu: u32) -> Option<&mut Task> {
        if !self.tasks.contains_key(&pid) && !self.budget.take(entry_bytes::<(u64, Task)>() + 256) {
            return None;
        }
        let new = || Task {
            cpu,
            ..Task::default()
        };
        Some(self.tasks.entry(pid).or_insert_with(new))
    }

    /// Adds an event about a thread that is not running. The context switch away from it may follow
    /// later, from the CPU on which it ran, or may be missing, if the thread has waited for a CPU
    /// since before the trace.
    fn add_wakeup(&mut self, pid: u64, (time, cpu): (u64, u32), event: Vec<u8>) {
        if pid != 0
            && let Some(task) = self.task(pid, cpu)
            && task.time <= time
        {
            let index = task.wakeups.partition_point(|(at, _)| *at <= time);
            task.wakeups.insert(index, (time, event));
            if task.wakeups.len() > MAX_WAKEUPS {
                task.wakeups.remove(1);
            }
        }
    }

    fn hold(&mut self, key: Key, cpu: u32, time: u64, event: Option<&[u8]>) {
        let event = event.map(<[u8]>::to_vec);
        if let Some(held) = self.held.get_mut(&key) {
            if held.time <= time {
                *held = Held { time, cpu, event };
            }
        } else if self.budget.take(entry_bytes::<(Key, Held)>() + 256) {
            self.held.insert(key, Held { time, cpu, event });
        }
    }

    /// Ends the system call of a thread that exits.
    fn end_call(&mut self, pid: u64, cpu: u32, time: u64) {
        let key = (event::SYS_ENTER, pid, Vec::new());
        if self.held.contains_key(&key) {
            self.hold(key, cpu, time, None);
        }
    }

    /// Reads text that a program wrote to the trace marker.
    fn mark(&mut self, cpu: u32, time: u64, pid: u64, text: &[u8], bytes: &[u8]) {
        let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | 0));
        let text = &text[..end.map_or(0, |end| end + 1)];
        let mut parts = text.splitn(4, |byte| *byte == b'|');
        let (kind, of) = (parts.next().unwrap_or_default(), parts.next());
        let (name, rest) = (parts.next(), parts.next());
        let of = of.unwrap_or_default();
        let which = |more: &[u8]| [of, b"|", name.unwrap_or_default(), b"|", more].concat();
        match kind {
            b"B" | b"E" => {
                let stack = self.marks.entry(pid).or_default();
                match kind {
                    b"B" if self.budget.take(bytes.len() + 64) => {
                        stack.begin(time, (cpu, bytes.to_vec()));
                    }
                    b"B" => {}
                    _ => stack.end(time),
                }
            }
            b"C" => self.hold((event::PRINT, 0, which(b"")), cpu, time, Some(bytes)),
            b"S" => {
                let key = (event::PRINT, 1, which(rest.unwrap_or_default()));
                self.hold(key, cpu, time, Some(bytes));
            }
            b"F" => {
                let key = (event::PRINT, 1, which(rest.unwrap_or_default()));
                self.hold(key, cpu, time, None);
            }
            b"G" | b"H" => {
                // The end event may omit the name.
                let rest = rest.unwrap_or_default();
                let cookie = rest.rsplit(|byte| *byte == b'|').next().unwrap_or_default();
                let held = (kind == b"G").then_some(bytes);
                self.hold((event::PRINT, 2, which(cookie)), cpu, time, held);
            }
            _ => {}
        }
    }

    /// Returns the threads that ended since the last call, with their end times.
    pub(crate) fn take_ended(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.ended)
    }
}

fn number(message: &[u8], field: u32) -> u64 {
    let found = Fields::find(field, message);
    found.and_then(|found| found.as_u64()).unwrap_or(0)
}

fn text(message: &[u8], field: u32) -> &[u8] {
    let found = Fields::find(field, message);
    found.and_then(|found| found.as_bytes()).unwrap_or_default()
}
