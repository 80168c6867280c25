//! The partition of an interval: each part of it belongs to the thread that the selected thread
//! waited for at that time, directly or through others.

use crate::schedule::{Schedule, State, StateKind, Waker};

/// The maximum number of waits in a chain. Longer ones are cut.
const MAX_DEPTH: u32 = 64;

/// A part of an interval, with the state of the thread to which the time belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The beginning, in nanoseconds.
    pub start: i64,
    /// The end, exclusive.
    pub end: i64,
    /// The thread: the selected one, or the one at the end of the chain of waits.
    pub thread: u32,
    /// The innermost wait: an index in [`Partition::waits`].
    pub wait: Option<u32>,
    /// The state of the thread.
    pub kind: PartKind,
    /// The CPU of the state.
    pub cpu: Option<u32>,
}

/// The state of the thread to which a part belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// It ran.
    Running,
    /// It waited for a CPU.
    Runnable,
    /// It was blocked, and the thread that ended the wait is unknown, or there is none: the wait of
    /// this part is the last of the chain.
    Blocked,
    /// It did not exist yet.
    Unborn,
    /// It had ended.
    Ended,
    /// Events are missing.
    Lost,
    /// It was blocked, and the chain of waits is too long.
    TooDeep,
}

/// A wait of a thread that is a link of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The thread that waited.
    pub thread: u32,
    /// The beginning of the wait's share of the interval.
    pub start: i64,
    /// The end of the wait's share of the interval, exclusive.
    pub end: i64,
    /// The whole wait, of which that is a part.
    pub state: State,
    /// The wait of the thread that is explained by this one: an index in [`Partition::waits`].
    pub parent: Option<u32>,
    /// The number of waits above it.
    pub depth: u32,
}

/// A partition of an interval of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// The parts, in the order of time. They cover the interval without gaps and overlaps.
    pub parts: Vec<Part>,
    /// The waits, each after its parent.
    pub waits: Vec<Wait>,
}

#[derive(Debug, Clone, Copy)]
struct Task {
    thread: u32,
    start: i64,
    end: i64,
    wait: Option<u32>,
    depth: u32,
}

impl Partition {
    /// Returns the partition of an interval of a thread.
    pub fn new(schedule: &Schedule, thread: u32, start: i64, end: i64) -> Self {
        let states = schedule.states(thread);
        let until = states.partition_point(|state| state.start < end);
        let own = until.saturating_sub(states.partition_point(|state| state.end <= start));
        let mut partition = Self {
            parts: Vec::with_capacity(own),
            waits: Vec::new(),
        };
        // The tasks are in reverse order of time, and do not overlap.
        let mut tasks = vec![Task {
            thread,
            start,
            end,
            wait: None,
            depth: 0,
        }];
        while let Some(task) = tasks.pop() {
            partition.divide(schedule, task, &mut tasks);
        }
        partition
    }

    /// Adds the parts of a task until a wait that another thread explains; that and the rest of the
    /// task become further tasks.
    fn divide(&mut self, schedule: &Schedule, task: Task, tasks: &mut Vec<Task>) {
        let states = schedule.states(task.thread);
        let first = states.partition_point(|state| state.end <= task.start);
        let mut at = task.start;
        for state in &states[first..] {
            if at >= task.end || state.start >= task.end {
                break;
            }
            if state.start > at {
                self.add(&task, at, state.start, PartKind::Lost, None);
                at = state.start;
            }
            let end = state.end.min(task.end);
            if end <= at {
                continue;
            }
            let kind = match (state.kind, state.waker) {
                (StateKind::Running, _) => PartKind::Running,
                (StateKind::Runnable, _) => PartKind::Runnable,
                (StateKind::Ended, _) => PartKind::Ended,
                (StateKind::Lost, _) => PartKind::Lost,
                (StateKind::Unborn, Waker::Thread(_)) | (StateKind::Blocked(_), _) => {
                    tasks.push(Task { start: end, ..task });
                    self.wait(&task, state, at, end, tasks);
                    return;
                }
                (StateKind::Unborn, _) => PartKind::Unborn,
            };
            self.add(&task, at, end, kind, state.cpu);
            at = end;
        }
        if at < task.end {
            let last = states.last().filter(|last| last.end <= at);
            let kind = match last.map(|last| last.kind) {
                Some(StateKind::Ended) => PartKind::Ended,
                _ => PartKind::Lost,
            };
            self.add(&task, at, task.end, kind, None);
        }
    }

    fn wait(&mut self, task: &Task, state: &State, start: i64, end: i64, tasks: &mut Vec<Task>) {
        let wait = self.waits.len() as u32;
        self.waits.push(Wait {
            thread: task.thread,
            start,
            end,
            state: *state,
            parent: task.wait,
            depth: task.depth,
        });
        let within = Task {
            wait: Some(wait),
            ..*task
        };
        match state.waker {
            Waker::Thread(_) if task.depth >= MAX_DEPTH => {
                self.add(&within, start, end, PartKind::TooDeep, None);
            }
            Waker::Thread(thread) => tasks.push(Task {
                thread,
                start,
                end,
                wait: Some(wait),
                depth: task.depth + 1,
            }),
            Waker::Interrupt(_) | Waker::Unknown => {
                self.add(&within, start, end, PartKind::Blocked, None);
            }
        }
    }

    fn add(&mut self, task: &Task, start: i64, end: i64, kind: PartKind, cpu: Option<u32>) {
        self.parts.push(Part {
            start,
            end,
            thread: task.thread,
            wait: task.wait,
            kind,
            cpu,
        });
    }
}
