//! Callbacks of a program that can be revoked.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// A gate for calls of a program's callbacks, from any thread, until it is closed.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// The threads that run a callback of the program.
    inside: Vec<ThreadId>,
}

impl Gate {
    /// Makes a call, unless the gate is closed.
    pub(crate) fn pass(&self, call: impl FnOnce()) {
        let this = thread::current().id();
        {
            let mut state = self.state();
            if state.is_closed {
                return;
            }
            state.inside.push(this);
        }
        call();
        let mut state = self.state();
        if let Some(index) = state.inside.iter().position(|inside| *inside == this) {
            state.inside.swap_remove(index);
        }
        drop(state);
        self.left.notify_all();
    }

    /// Prevents further calls, and waits for running calls, except those of this thread.
    pub(crate) fn close(&self) {
        let this = thread::current().id();
        let mut state = self.state();
        state.is_closed = true;
        let others = |state: &mut State| state.inside.iter().any(|inside| *inside != this);
        let waited = self.left.wait_while(state, others);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn closing_waits_for_running_calls() {
        let gate = Arc::new(Gate::default());
        let has_returned = Arc::new(AtomicBool::new(false));
        let ((inside, is_inside), (closing, is_closing)) = (channel(), channel());
        let (of_caller, returned) = (Arc::clone(&gate), Arc::clone(&has_returned));
        let caller = thread::spawn(move || {
            of_caller.pass(|| {
                inside.send(()).unwrap();
                is_closing.recv().unwrap();
                // The other thread is closing the gate, or about to.
                thread::yield_now();
                returned.store(true, Ordering::Relaxed);
            });
        });
        is_inside.recv().unwrap();
        closing.send(()).unwrap();
        gate.close();
        assert!(has_returned.load(Ordering::Relaxed));
        caller.join().unwrap();
        gate.pass(|| panic!("the gate is closed"));
    }

    #[test]
    fn a_function_may_close_the_gate_it_is_called_through() {
        let gate = Gate::default();
        gate.pass(|| gate.close());
        gate.pass(|| panic!("the gate is closed"));
    }
}
