//! Chains of wake-ups.

use serde_json::{Value, json};

use crate::view::View;

/// The maximum length of a chain.
const MAX_CHAIN: usize = 32;

impl View {
    /// Returns the state of a thread at a time.
    pub(crate) fn state_at(&self, utid: u32, ts: i64) -> Option<u32> {
        let rows = self.scene().states().rows(utid);
        let table = &self.trace().tables().thread_state;
        let behind = rows.partition_point(|row| table.ts().get(row) <= ts);
        rows.get(behind.checked_sub(1)?)
    }

    /// For a running state, returns the state before it in which the thread waited for a CPU. For a
    /// runnable state, returns the state itself.
    pub(crate) fn runnable_before(&self, state: u32) -> Option<u32> {
        let table = &self.trace().tables().thread_state;
        if table.waker_utid().get(state).is_some() {
            return Some(state);
        }
        let strings = self.trace().strings();
        if strings.text(table.state().get(state)) != "Running" {
            return None;
        }
        let rows = self.scene().states().rows(table.utid().get(state));
        let ts = table.ts();
        let position = rows.partition_point(|row| ts.get(row) < ts.get(state));
        let before = rows.get(position.checked_sub(1)?)?;
        let is_runnable = strings.text(table.state().get(before)).starts_with('R');
        (is_runnable && before != state).then_some(before)
    }

    /// Returns the thread that woke the thread of this state, the thread that woke that one, and so
    /// on.
    pub(crate) fn wake_up_chain(&self, mut state: u32) -> Vec<Value> {
        let table = &self.trace().tables().thread_state;
        let mut chain = Vec::new();
        while chain.len() < MAX_CHAIN {
            let Some(runnable) = self.runnable_before(state) else {
                break;
            };
            let Some(waker) = table.waker_utid().get(runnable) else {
                break;
            };
            let ts = table.ts().get(runnable);
            let Some(next) = table.waker_id().get(runnable).or(self.state_at(waker, ts)) else {
                break;
            };
            let in_interrupt = table.irq_context().get(runnable) == Some(true);
            let text = self.waking_text(waker, runnable, in_interrupt);
            let node = self.states_node(waker);
            if let Some(to) = node.and_then(|node| self.reference(node, 0, next)) {
                chain.push(json!({"ref": to, "text": text}));
            }
            // An interrupt is not caused by the thread that it interrupted. Times must decrease, so
            // that the chain ends.
            if in_interrupt || table.ts().get(next) >= table.ts().get(state) {
                break;
            }
            state = next;
        }
        chain
    }

    fn waking_text(&self, waker: u32, runnable: u32, in_interrupt: bool) -> String {
        let tables = self.trace().tables();
        let strings = self.trace().strings();
        let thread = |utid: u32| {
            let name = strings.text(tables.thread.name().get(utid));
            format!("{name} {}", tables.thread.tid().get(utid))
        };
        let woken = thread(tables.thread_state.utid().get(runnable));
        let (waker, woken) = (thread(waker), woken.trim_start().to_owned());
        if in_interrupt {
            format!("an interrupt during {} woke {woken}", waker.trim_start())
        } else {
            format!("{} woke {woken}", waker.trim_start())
        }
    }
}
