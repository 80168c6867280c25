//! The events at the start of a part, which restore the kernel state for readers.

use std::collections::BTreeMap;

use ferretto_proto::fields::ftrace_event as event;
use ferretto_proto::fields::{
    sched_switch_ftrace_event as switch, sched_waking_ftrace_event as waking,
};
use ferretto_wire::encode;

use super::{Held, Kernel, Key, Task, TaskState, number};
use crate::bundle::packet_of;
use crate::packet::rewrite;
use crate::state::When;
use crate::state::stack::Stack;

/// The maximum number of written wake-ups of a thread. Later ones have no effect on readers.
const MAX_WRITTEN_WAKEUPS: usize = 2;

impl Kernel {
    /// Writes the state as events. `is_described` returns true for threads that other packets
    /// describe: they need no creation event.
    pub(in crate::state) fn write(
        &mut self,
        when: When,
        is_described: impl Fn(u64) -> bool,
        out: &mut dyn FnMut(Vec<u8>),
    ) {
        let mut opening = Opening {
            when,
            complete_from: self.complete_from,
            running: &self.running,
            tasks: &self.tasks,
            last: &self.last,
            // A bundle for CPUs without events so far, because readers need one from each CPU.
            events: self.seen.iter().map(|cpu| (*cpu, Vec::new())).collect(),
        };
        opening.switch();
        opening.wake(is_described);
        opening.hold(&self.held);
        opening.mark(&mut self.marks);
        for (cpu, mut events) in opening.events {
            events.sort_by_key(|event| number(event, event::TIMESTAMP));
            let begin = (cpu, self.complete_from);
            out(packet_of(begin, |out| self.writer.write(out), &events));
        }
    }
}

/// The events of each CPU, and the state that they restore.
#[derive(Debug)]
struct Opening<'a> {
    when: When,
    complete_from: u64,
    running: &'a BTreeMap<u32, u64>,
    tasks: &'a BTreeMap<u64, Task>,
    last: &'a BTreeMap<u32, u64>,
    events: BTreeMap<u32, Vec<Vec<u8>>>,
}

impl Opening<'_> {
    /// Adds context switches to the waiting threads and then to the running one, for each CPU.
    fn switch(&mut self) {
        let cpus = self.running.keys().map(|cpu| (*cpu, Vec::new()));
        let mut cpus: BTreeMap<u32, Vec<(u64, &Task)>> = cpus.collect();
        for (pid, task) in self.tasks {
            if self.is_waiting(task) {
                cpus.entry(task.cpu).or_default().push((*pid, task));
            }
        }
        let idle = Task {
            comm: b"swapper".to_vec(),
            priority: 120,
            ..Task::default()
        };
        for (cpu, waiting) in cpus {
            let time = self.time_on(cpu);
            let running = self.running.get(&cpu).copied().unwrap_or(0);
            // A chain of switches through all waiting threads to the running one. It also starts
            // with the running thread, to match earlier events if the part is merged with the
            // previous one.
            let last = (running, self.tasks.get(&running).unwrap_or(&idle));
            let chain = [last].into_iter().chain(waiting.iter().copied());
            for (before, next) in chain.zip(waiting.iter().copied().chain([last])) {
                self.push(cpu, switched(time, before, next));
            }
        }
    }

    /// Adds the creation events of threads that have not run, and the wake-ups and blocked reasons
    /// of other threads that are not running.
    fn wake(&mut self, is_described: impl Fn(u64) -> bool) {
        for (pid, task) in self.tasks {
            // Events of a thread that has not run may still follow from other CPUs, so its events
            // keep their own times.
            let time = |own: u64| {
                if self.is_waiting(task) {
                    self.time_on(task.cpu)
                } else {
                    self.when.of(own)
                }
            };
            let events = match &task.state {
                TaskState::Running => Vec::new(),
                TaskState::New(event) if task.time >= self.complete_from => {
                    let time = time(task.time);
                    vec![if is_described(*pid) {
                        woken(time, *pid, task, event)
                    } else {
                        timed(event, time)
                    }]
                }
                _ => {
                    let wakeups = task.wakeups.iter();
                    let wakeups = wakeups.filter(|(time, _)| *time >= self.complete_from);
                    let first = wakeups.take(MAX_WRITTEN_WAKEUPS);
                    first.map(|(own, event)| timed(event, time(*own))).collect()
                }
            };
            self.events.entry(task.cpu).or_default().extend(events);
        }
    }

    /// Adds the events that are still valid.
    fn hold(&mut self, held: &BTreeMap<Key, Held>) {
        for held in held.values() {
            if let Some(event) = &held.event
                && held.time >= self.complete_from
            {
                let time = self.time_on(held.cpu).max(held.time);
                self.push(held.cpu, timed(event, time));
            }
        }
    }

    /// Adds the begin events of open intervals in the trace marker.
    fn mark(&mut self, marks: &mut BTreeMap<u64, Stack<(u32, Vec<u8>)>>) {
        for stack in marks.values_mut() {
            for (time, (cpu, event)) in stack.open() {
                if *time >= self.complete_from {
                    let time = self.time_on(*cpu).max(*time);
                    self.push(*cpu, timed(event, time));
                }
            }
        }
    }

    fn push(&mut self, cpu: u32, event: Vec<u8>) {
        self.events.entry(cpu).or_default().push(event);
    }

    /// Returns true if the thread has been waiting since a time for which the events are complete.
    fn is_waiting(&self, task: &Task) -> bool {
        matches!(task.state, TaskState::Waiting(_)) && task.time >= self.complete_from
    }

    /// Returns the time of the events that restore the state of a CPU.
    fn time_on(&self, cpu: u32) -> u64 {
        let last = self.last.get(&cpu).copied().unwrap_or(0);
        // The last event of a CPU may be older than an event of the same thread on another CPU.
        let running = self.running.get(&cpu).and_then(|pid| self.tasks.get(pid));
        let is_outdated = running.is_some_and(|task| task.cpu != cpu);
        let time = self.when.of_cpu(last);
        time.saturating_sub(u64::from(is_outdated))
    }
}

/// Returns the context switch from one thread to another.
fn switched(time: u64, (pid, task): (u64, &Task), (next, to): (u64, &Task)) -> Vec<u8> {
    encode(|out| {
        out.varint(event::TIMESTAMP, time);
        out.varint(event::PID, pid);
        out.nested(event::SCHED_SWITCH, |out| {
            out.bytes(switch::PREV_COMM, &task.comm);
            out.varint(switch::PREV_PID, pid);
            out.varint(switch::PREV_PRIO, task.priority);
            let state = match task.state {
                TaskState::Waiting(state) => state,
                _ => 0,
            };
            out.varint(switch::PREV_STATE, state);
            out.bytes(switch::NEXT_COMM, &to.comm);
            out.varint(switch::NEXT_PID, next);
            out.varint(switch::NEXT_PRIO, to.priority);
        });
    })
}

/// Returns the wake-up of a new thread by the thread that created it.
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

/// Returns the event with another timestamp.
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
