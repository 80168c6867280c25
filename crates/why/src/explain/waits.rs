//! Waits of threads: their kinds, and the threads and interrupts that ended them.

use ferretto_tables::StringId;

use super::Why;
use crate::evidence::{call_name, first_argument};
use crate::explanation::ExplainedWait;
use crate::kind::{self, WaitKind};
use crate::partition::Wait;
use crate::schedule::{State, StateKind, Waker};

impl Why<'_> {
    /// Returns a blocked state of a thread as a wait, with what the trace tells of it.
    pub fn wait_of(&self, thread: u32, state: &State) -> ExplainedWait {
        self.wait(&Wait {
            thread,
            start: state.start,
            end: state.end,
            state: *state,
            parent: None,
            depth: 0,
        })
    }

    pub(super) fn wait(&self, wait: &Wait) -> ExplainedWait {
        let state = &wait.state;
        let strings = self.trace.strings();
        let callsite = self.prepared.evidence.stack_of_wait(wait.thread, state);
        let call = self.prepared.evidence.call_at(wait.thread, state.start);
        let stack = callsite.and_then(|callsite| self.prepared.stacks.get(&callsite));
        let letter = match state.kind {
            StateKind::Blocked(letter) => letter,
            _ => 0,
        };
        let interrupt = match state.waker {
            Waker::Interrupt(cpu) => self.waking_interrupt(cpu, state.end),
            Waker::Thread(_) | Waker::Unknown => None,
        };
        let of_call = call.map(|call| kind::of_call(call_name(strings.text(call.name))));
        let kind = match (state.kind, stack.and_then(|stack| stack.kind)) {
            (StateKind::Unborn, _) => WaitKind::Creation,
            (_, Some(kind)) => kind,
            _ => match (of_call, letter) {
                (Some(WaitKind::File | WaitKind::Call), b'D') | (None, b'D')
                    if self.is_woken_by_program(state) =>
                {
                    WaitKind::KernelLock
                }
                (Some(WaitKind::File | WaitKind::Call), b'D') => WaitKind::Disk,
                (Some(kind), _) => kind,
                (None, b'T' | b't') => WaitKind::Stopped,
                (None, b'I') => WaitKind::Work,
                (None, _) if self.is_kernel_thread(wait.thread) => WaitKind::Work,
                (None, b'D') => WaitKind::Disk,
                _ => WaitKind::Unknown,
            },
        };
        let of_interrupt = interrupt.and_then(|name| kind::of_interrupt(strings.text(name)));
        let is_interrupt = matches!(state.waker, Waker::Interrupt(_));
        let kind = match (kind, of_interrupt) {
            // Shells wait for the signal that a child sends at its end.
            (WaitKind::Signal, _) if self.is_woken_by_exit(state) => WaitKind::Child,
            // The time of a wait with a timeout.
            (_, Some(WaitKind::Timer)) => WaitKind::Timer,
            (WaitKind::Lock, None) if is_interrupt => WaitKind::Timer,
            (WaitKind::Socket, _) if is_interrupt => WaitKind::Network,
            (
                WaitKind::File
                | WaitKind::Poll
                | WaitKind::Call
                | WaitKind::Work
                | WaitKind::Unknown,
                Some(kind),
            ) => kind,
            (kind, _) => kind,
        };
        let call = call.filter(|_| kind != WaitKind::Creation);
        let is_futex = call.is_some_and(|call| strings.text(call.name).starts_with("sys_futex"));
        let set = call.filter(|_| is_futex).and_then(|call| call.args);
        ExplainedWait {
            wait: *wait,
            kind,
            call: call.map(|call| call.name),
            address: set.and_then(|set| first_argument(self.trace, set)),
            callsite,
            waker_callsite: match state.waker {
                Waker::Thread(waker) => self.prepared.evidence.nearest_stack(waker, state.end),
                Waker::Interrupt(_) | Waker::Unknown => None,
            },
            interrupt,
        }
    }

    /// Returns true if a thread of a program ended a wait. Disks do not, but holders of locks do.
    fn is_woken_by_program(&self, state: &State) -> bool {
        match state.waker {
            Waker::Thread(thread) => !self.is_kernel_thread(thread),
            Waker::Interrupt(_) | Waker::Unknown => false,
        }
    }

    /// Returns true if the end of a thread ended a wait.
    fn is_woken_by_exit(&self, state: &State) -> bool {
        let Waker::Thread(thread) = state.waker else {
            return false;
        };
        // A thread that sends a signal may end right after. One that a signal ends is in no call.
        let call = self.prepared.evidence.call_at(thread, state.end);
        let name = call.map(|call| call_name(self.trace.strings().text(call.name)));
        if name.is_some_and(|name| !kind::exits(name)) {
            return false;
        }
        let states = self.prepared.schedule.states(thread);
        let next = states.partition_point(|of_waker| of_waker.end <= state.end) + 1;
        states
            .get(next)
            .is_some_and(|next| next.kind == StateKind::Ended)
    }

    /// Returns the interrupt that was in progress at a time: on a CPU, or if that is unknown, on
    /// those that were idle. If they differ, it is unknown.
    fn waking_interrupt(&self, cpu: Option<u32>, time: i64) -> Option<StringId> {
        if let Some(cpu) = cpu {
            return self
                .prepared
                .evidence
                .interrupt_at(cpu, time)
                .map(|span| span.name);
        }
        let is_idle = |cpu: &u32| self.prepared.schedule.run_at(*cpu, time).is_none();
        let cpus = (0..self.prepared.evidence.cpus()).filter(is_idle);
        let mut names =
            cpus.filter_map(|cpu| Some(self.prepared.evidence.interrupt_at(cpu, time)?.name));
        let first = names.next()?;
        names.all(|name| name == first).then_some(first)
    }
}
