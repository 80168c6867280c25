//! The state of a machine as its kernel's events tell it: what runs where, why other threads do
//! not, which intervals are open, and the values of counters.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_proto::fields::ftrace_event as event;
use ferretto_proto::fields::{
    block_io_start_ftrace_event as block, clk_set_rate_ftrace_event as clk,
    clock_set_rate_ftrace_event as clock, cpu_idle_ftrace_event as of_cpu,
    print_ftrace_event as print, rss_stat_ftrace_event as rss,
    sched_blocked_reason_ftrace_event as blocked, sched_process_free_ftrace_event as free,
    sched_switch_ftrace_event as switch, sched_waking_ftrace_event as waking,
    task_newtask_ftrace_event as newtask,
};
use ferretto_wire::{Fields, encode};

use super::When;
use super::stack::Stack;
use crate::bundle::{Bundle, Event, packet_of};
use crate::packet::rewrite;
use crate::state::sequence::Writer;

/// Bits of `prev_state` of threads that are no more.
const DEAD: u64 = 0x30;
/// Wake-ups of a thread that are kept, the first and the newest, until it is known whether it ran
/// then.
const MAX_SINCE: usize = 8;

/// Intervals by the numbers of the events that begin and end them, and whose they are.
const INTERVALS: [(u32, u32, Whose); 10] = [
    (event::SYS_ENTER, event::SYS_EXIT, Whose::Thread),
    (
        event::IRQ_HANDLER_ENTRY,
        event::IRQ_HANDLER_EXIT,
        Whose::Cpu,
    ),
    (event::SOFTIRQ_ENTRY, event::SOFTIRQ_EXIT, Whose::Cpu),
    (
        event::LOCAL_TIMER_ENTRY,
        event::LOCAL_TIMER_EXIT,
        Whose::Cpu,
    ),
    (
        event::HRTIMER_EXPIRE_ENTRY,
        event::HRTIMER_EXPIRE_EXIT,
        Whose::Cpu,
    ),
    (event::IPI_ENTRY, event::IPI_EXIT, Whose::Cpu),
    (
        event::NAPI_GRO_RECEIVE_ENTRY,
        event::NAPI_GRO_RECEIVE_EXIT,
        Whose::Cpu,
    ),
    (
        event::WORKQUEUE_EXECUTE_START,
        event::WORKQUEUE_EXECUTE_END,
        Whose::Thread,
    ),
    (
        event::MM_VMSCAN_DIRECT_RECLAIM_BEGIN,
        event::MM_VMSCAN_DIRECT_RECLAIM_END,
        Whose::Thread,
    ),
    (event::BLOCK_IO_START, event::BLOCK_IO_DONE, Whose::Request),
];

/// The owner of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Thread,
    Cpu,
    Request,
}

/// A thread as its last context switch left it.
#[derive(Debug, Default)]
struct Task {
    /// The time of the last event that told of it, other than wake-ups.
    time: u64,
    /// The CPU on which it ran last, or was woken first.
    cpu: u32,
    comm: Vec<u8>,
    priority: u64,
    standing: Standing,
    /// Wake-ups and reasons for which it was blocked since then, encoded, with their times, in
    /// order.
    since: Vec<(u64, Vec<u8>)>,
}

/// The state that events other than wake-ups left a thread in.
#[derive(Debug, Default)]
enum Standing {
    /// None told of it, or it is no more.
    #[default]
    Unknown,
    /// It was created by this event and has not run.
    New(Vec<u8>),
    Running,
    /// It does not run, for this reason.
    Waiting(u64),
}

/// An event that holds until another one of the same key.
#[derive(Debug)]
struct Held {
    time: u64,
    cpu: u32,
    /// `None` if it holds no more.
    event: Option<Vec<u8>>,
}

/// The key of an event that holds: its number, whose it is, and which.
type Key = (u32, u64, Vec<u8>);

/// The kernel of one machine.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The writer of its events.
    writer: Writer,
    budget: Budget,
    /// The thread that runs on each CPU.
    running: BTreeMap<u32, u64>,
    tasks: BTreeMap<u64, Task>,
    held: BTreeMap<Key, Held>,
    /// Intervals that programs wrote into the trace marker and have not ended, by thread.
    marks: BTreeMap<u64, Stack<(u32, Vec<u8>)>>,
    /// The last event of each CPU.
    last: BTreeMap<u32, u64>,
    /// CPUs of which there was a bundle.
    seen: BTreeSet<u32>,
    /// The time from which on the events of all CPUs are known. Readers take no state from earlier
    /// ones.
    whole_from: u64,
    /// Threads that ended since somebody asked, and when.
    gone: Vec<(u64, u64)>,
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
            whole_from: 0,
            gone: Vec::new(),
        }
    }

    /// Takes in the events of a bundle before `until`. The times of all go to `each`.
    pub(crate) fn add(&mut self, bundle: &Bundle<'_>, until: u64, mut each: impl FnMut(u64)) {
        let cpu = bundle.cpu;
        if self.seen.insert(cpu) {
            self.whole_from = bundle.begin.unwrap_or(0).max(self.whole_from);
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
                    // Readers do not take it without a waker either.
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
                    self.since(pid, (time, cpu), encoded);
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
                self.since(number(body, waking::PID), (time, cpu), bytes.to_vec());
            }
            event::SCHED_BLOCKED_REASON => {
                self.since(number(body, blocked::PID), (time, cpu), bytes.to_vec());
            }
            event::SCHED_PROCESS_FREE => {
                let pid = number(body, free::PID);
                self.stand(pid, (time, cpu), Standing::Unknown);
                self.gone.push((pid, time));
            }
            event::TASK_NEWTASK => {
                let new = number(body, newtask::PID);
                let standing = Standing::New(bytes.to_vec());
                if let Some(task) = self.stand(new, (time, cpu), standing) {
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
                let Some(&(begin, _, whose)) = interval else {
                    return;
                };
                let of = match whose {
                    Whose::Thread => (pid, Vec::new()),
                    Whose::Cpu => (cpu.into(), Vec::new()),
                    Whose::Request => {
                        let sector = number(body, block::SECTOR).to_le_bytes();
                        (number(body, block::DEV), sector.to_vec())
                    }
                };
                let held = (begin == kind).then_some(bytes);
                self.hold((begin, of.0, of.1), cpu, time, held);
            }
        }
    }

    /// `before` does not run any more, if it is known, and the next one does.
    fn switch(
        &mut self,
        cpu: u32,
        time: u64,
        before: Option<u64>,
        state: u64,
        (pid, priority, comm): (u64, u64, &[u8]),
    ) {
        if let Some(before) = before.filter(|pid| *pid != 0) {
            // It stays, as older news of it may come from other CPUs.
            let standing = match state & DEAD {
                0 => Standing::Waiting(state),
                _ => Standing::Unknown,
            };
            self.stand(before, (time, cpu), standing);
        }
        if pid != 0
            && let Some(task) = self.stand(pid, (time, cpu), Standing::Running)
        {
            task.comm = comm.to_vec();
            task.priority = priority;
        }
        self.running.insert(cpu, pid);
    }

    /// Changes the state of a thread, and returns it, if this is news of it and there is memory.
    fn stand(
        &mut self,
        pid: u64,
        (time, cpu): (u64, u32),
        standing: Standing,
    ) -> Option<&mut Task> {
        let task = self.task(pid, cpu)?;
        (task.time <= time).then(|| {
            (task.time, task.cpu, task.standing) = (time, cpu, standing);
            task.since.retain(|(at, _)| *at > time);
            task
        })
    }

    /// Returns a thread, or adds it if there is memory.
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

    /// Notes an event that explains the state of a thread that does not run. That it does not may
    /// be told only later, by the CPU on which it ran, or never, if it has waited for a CPU since
    /// before the trace.
    fn since(&mut self, pid: u64, (time, cpu): (u64, u32), event: Vec<u8>) {
        if pid != 0
            && let Some(task) = self.task(pid, cpu)
            && task.time <= time
        {
            let place = task.since.partition_point(|(at, _)| *at <= time);
            task.since.insert(place, (time, event));
            if task.since.len() > MAX_SINCE {
                task.since.remove(1);
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

    /// Reads what a program wrote into the trace marker.
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
                // The end need not repeat the name.
                let rest = rest.unwrap_or_default();
                let cookie = rest.rsplit(|byte| *byte == b'|').next().unwrap_or_default();
                let held = (kind == b"G").then_some(bytes);
                self.hold((event::PRINT, 2, which(cookie)), cpu, time, held);
            }
            _ => {}
        }
    }

    /// Writes the state as events. `is_told` returns true for threads of which other packets
    /// tell: they need not be created.
    pub(super) fn write(
        &mut self,
        when: When,
        is_told: impl Fn(u64) -> bool,
        out: &mut dyn FnMut(Vec<u8>),
    ) {
        let mut events: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
        let last = &self.last;
        // The last event of a CPU may be older than news of its thread from another one.
        let (running, tasks) = (&self.running, &self.tasks);
        let is_outdated = |cpu: u32| {
            let running = running.get(&cpu).and_then(|pid| tasks.get(pid));
            running.is_some_and(|task| task.cpu != cpu)
        };
        let of_cpu = |cpu: u32| {
            let last = when.of_cpu(last.get(&cpu).copied().unwrap_or(0));
            last.saturating_sub(u64::from(is_outdated(cpu)))
        };
        let whole_from = self.whole_from;
        let mut cpus: BTreeMap<u32, Vec<(u64, &Task)>> =
            self.running.keys().map(|cpu| (*cpu, Vec::new())).collect();
        for (pid, task) in &self.tasks {
            let is_waiting = matches!(task.standing, Standing::Waiting(_));
            if is_waiting && task.time >= whole_from {
                cpus.entry(task.cpu).or_default().push((*pid, task));
            }
        }
        // A CPU without events until now is not the last one of which events are known.
        for cpu in &self.seen {
            events.entry(*cpu).or_default();
        }
        for (cpu, waiting) in cpus {
            let time = of_cpu(cpu);
            let into = events.entry(cpu).or_default();
            let running = self.running.get(&cpu).copied().unwrap_or(0);
            let idle = Task {
                comm: b"swapper".to_vec(),
                priority: 120,
                ..Task::default()
            };
            // Each is switched to the next one, so that none is missed, and in the end the one that
            // runs. It is also the first, as events before may say, if the part is merged with the
            // one before.
            let last = (running, self.tasks.get(&running).unwrap_or(&idle));
            let chain = [last].into_iter().chain(waiting.iter().copied());
            for (before, next) in chain.zip(waiting.iter().copied().chain([last])) {
                into.push(switched(time, before, next));
            }
        }
        for (pid, task) in &self.tasks {
            let into = events.entry(task.cpu).or_default();
            // Other CPUs may still tell what a thread did that has not run yet, so then each keeps
            // its own time.
            let is_waiting = matches!(task.standing, Standing::Waiting(_));
            let when = |own: u64| match is_waiting && task.time >= whole_from {
                true => of_cpu(task.cpu),
                false => when.of(own),
            };
            match &task.standing {
                Standing::Running => continue,
                Standing::New(event) if task.time >= whole_from => {
                    let time = when(task.time);
                    into.push(match is_told(*pid) {
                        true => woken(time, *pid, task, event),
                        false => timed(event, time),
                    });
                    continue;
                }
                _ => {}
            }
            // Those after the wake-up change nothing.
            let since = task.since.iter().filter(|(time, _)| *time >= whole_from);
            for (time, event) in since.take(2) {
                into.push(timed(event, when(*time)));
            }
        }
        for held in self.held.values().filter(|held| held.time >= whole_from) {
            if let Some(event) = &held.event {
                let time = of_cpu(held.cpu).max(held.time);
                events.entry(held.cpu).or_default().push(timed(event, time));
            }
        }
        for stack in self.marks.values_mut() {
            let open = stack.open().iter().filter(|(time, _)| *time >= whole_from);
            for (time, (cpu, event)) in open {
                let time = of_cpu(*cpu).max(*time);
                events.entry(*cpu).or_default().push(timed(event, time));
            }
        }
        for (cpu, mut events) in events {
            events.sort_by_key(|event| number(event, event::TIMESTAMP));
            let begin = (cpu, whole_from);
            out(packet_of(begin, |out| self.writer.write(out), &events));
        }
    }

    /// Returns the threads that ended since the last call, and when.
    pub(crate) fn take_gone(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.gone)
    }
}

/// The event that one thread gave a CPU to another.
fn switched(time: u64, (pid, task): (u64, &Task), (next, to): (u64, &Task)) -> Vec<u8> {
    encode(|out| {
        out.varint(event::TIMESTAMP, time);
        out.varint(event::PID, pid);
        out.nested(event::SCHED_SWITCH, |out| {
            out.bytes(switch::PREV_COMM, &task.comm);
            out.varint(switch::PREV_PID, pid);
            out.varint(switch::PREV_PRIO, task.priority);
            let state = match task.standing {
                Standing::Waiting(state) => state,
                _ => 0,
            };
            out.varint(switch::PREV_STATE, state);
            out.bytes(switch::NEXT_COMM, &to.comm);
            out.varint(switch::NEXT_PID, next);
            out.varint(switch::NEXT_PRIO, to.priority);
        });
    })
}

/// The event that a thread was woken by the one that created it with an event.
fn woken(time: u64, pid: u64, task: &Task, created: &[u8]) -> Vec<u8> {
    encode(|out| {
        out.varint(event::TIMESTAMP, time);
        out.varint(event::PID, number(created, event::PID));
        out.nested(event::SCHED_WAKING, |out| {
            out.bytes(waking::COMM, &task.comm);
            out.varint(waking::PID, pid);
            out.varint(waking::PRIO, task.priority);
            out.varint(waking::SUCCESS, 1);
            out.varint(waking::TARGET_CPU, task.cpu.into());
        });
    })
}

/// The same event at another time.
fn timed(bytes: &[u8], time: u64) -> Vec<u8> {
    encode(|out| {
        rewrite(bytes, out, |field, out| {
            let is_time = field.number == event::TIMESTAMP;
            if is_time {
                out.varint(event::TIMESTAMP, time);
            }
            is_time
        });
    })
}

fn number(message: &[u8], field: u32) -> u64 {
    let found = Fields::find(field, message);
    found.and_then(|found| found.as_u64()).unwrap_or(0)
}

fn text(message: &[u8], field: u32) -> &[u8] {
    let found = Fields::find(field, message);
    found.and_then(|found| found.as_bytes()).unwrap_or_default()
}
