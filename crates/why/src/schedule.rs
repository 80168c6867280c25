//! The states of threads, and the threads that ran on each CPU.

use crate::grouped::Grouped;

/// A state of a thread: an interval in which it ran, waited for a CPU, or was blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The beginning, in nanoseconds.
    pub start: i64,
    /// The end, exclusive.
    pub end: i64,
    /// The kind of the state.
    pub kind: StateKind,
    /// The CPU on which it ran; for a thread that waits for a CPU, the one on which it ran next.
    pub cpu: Option<u32>,
    /// The end of the wait, for a blocked thread.
    pub waker: Waker,
}

/// A kind of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    /// It ran on a CPU.
    Running,
    /// It could have run, and waited for a CPU.
    Runnable,
    /// It waited for something else. The letter is the kernel's: `S`, `D` and so on.
    Blocked(u8),
    /// It did not exist yet.
    Unborn,
    /// It had ended.
    Ended,
    /// Events are missing.
    Lost,
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// It did not end in the trace, or the event is missing.
    Unknown,
    /// A thread ended it. The wait is explained by what that thread did meanwhile.
    Thread(u32),
    /// An interrupt ended it, or a timer: on this CPU, if the trace tells.
    Interrupt(Option<u32>),
}

/// A time in which a thread ran on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The beginning, in nanoseconds.
    pub start: i64,
    /// The end, exclusive.
    pub end: i64,
    /// The thread.
    pub thread: u32,
}

/// The states of all threads.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    states: Grouped<State>,
    runs: Grouped<Run>,
}

impl Schedule {
    /// Returns the schedule of these states, each with its thread.
    ///
    /// The states of a thread have to be in the order of time. A state that overlaps the next one
    /// of its thread ends there.
    pub fn new(states: impl IntoIterator<Item = (u32, State)>) -> Self {
        Self::of(states.into_iter().collect())
    }

    /// Returns the schedule of these states by thread, as [`new`](Self::new) does.
    pub(crate) fn of(mut all: Grouped<State>) -> Self {
        let mut runs: Grouped<Run> = Grouped::default();
        all.for_each_group(|thread, states| {
            for at in 1..states.len() {
                let start = states[at].start.max(states[at - 1].start);
                states[at].start = start;
                states[at - 1].end = states[at - 1].end.clamp(states[at - 1].start, start);
            }
            if let Some(last) = states.last_mut() {
                last.end = last.end.max(last.start);
            }
            for state in states.iter().filter(|it| it.kind == StateKind::Running) {
                if let Some(cpu) = state.cpu {
                    let (start, end) = (state.start, state.end);
                    runs.push(cpu, Run { start, end, thread });
                }
            }
        });
        runs.shrink();
        Self::with_runs(all, runs)
    }

    /// Returns the schedule of these states, which do not overlap, and the runs of each CPU. In the
    /// order of time, these need not be sorted.
    pub(crate) fn with_runs(states: Grouped<State>, mut runs: Grouped<Run>) -> Self {
        runs.for_each_group(|_, runs| {
            let order = |run: &Run| (run.start, run.thread);
            if !runs.is_sorted_by_key(order) {
                runs.sort_by_key(order);
            }
            for at in 1..runs.len() {
                runs[at - 1].end = runs[at - 1].end.min(runs[at].start);
            }
        });
        Self { states, runs }
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.states.memory() + self.runs.memory()
    }

    /// Returns the states of a thread, in the order of time, without overlaps.
    pub fn states(&self, thread: u32) -> &[State] {
        self.states.of(thread)
    }

    /// Returns the times in which threads ran on a CPU, in the order of time, without overlaps.
    pub fn runs(&self, cpu: u32) -> &[Run] {
        self.runs.of(cpu)
    }

    /// Returns the time in which a thread ran on a CPU at a time. `None` if the CPU was idle.
    pub fn run_at(&self, cpu: u32, time: i64) -> Option<&Run> {
        let runs = self.runs(cpu);
        let at = runs.partition_point(|run| run.end <= time);
        runs.get(at).filter(|run| run.start <= time)
    }

    /// Returns the number of threads, including those without states.
    pub fn threads(&self) -> u32 {
        self.states.groups()
    }

    /// Returns the state of a thread at a time.
    pub fn state_at(&self, thread: u32, time: i64) -> Option<&State> {
        let states = self.states(thread);
        let at = states.partition_point(|state| state.end <= time);
        states.get(at).filter(|state| state.start <= time)
    }
}
