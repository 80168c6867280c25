//! Bounds for connections. Strangers, which have not shown the token, take each other's places, and
//! never that of the page.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Most connections of strangers.
const MAX_STRANGERS: usize = 32;
/// Most connections that have shown the token.
const MAX_KNOWN: usize = 64;
/// Most connections in all, those that are being closed included.
const MAX_ALL: usize = 128;

/// The connections there are.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    strangers: VecDeque<(u64, TcpStream)>,
    next: u64,
    known: usize,
    all: usize,
}

/// A connection's place; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    gate: Arc<Gate>,
    number: u64,
    is_known: bool,
}

impl Gate {
    /// Lets a stranger in; the one that has been there for longest may have to go. `None` if there
    /// is no place at all.
    pub(crate) fn enter(self: &Arc<Self>, stream: &TcpStream) -> Option<Entry> {
        let copy = stream.try_clone().ok()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.strangers.len() >= MAX_STRANGERS
            && let Some((_, oldest)) = state.strangers.pop_front()
        {
            // The thread that serves it sees its end.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        if state.all >= MAX_ALL {
            return None;
        }
        state.all += 1;
        state.next += 1;
        let number = state.next;
        state.strangers.push_back((number, copy));
        Some(Entry {
            gate: self.clone(),
            number,
            is_known: false,
        })
    }
}

impl Entry {
    /// Makes a stranger known. `false` if there are too many already.
    pub(crate) fn admit(&mut self) -> bool {
        if self.is_known {
            return true;
        }
        let mut state = self
            .gate
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if state.known >= MAX_KNOWN {
            return false;
        }
        state.known += 1;
        state.strangers.retain(|(number, _)| *number != self.number);
        self.is_known = true;
        true
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self
            .gate
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.all -= 1;
        match self.is_known {
            true => state.known -= 1,
            false => state.strangers.retain(|(number, _)| *number != self.number),
        }
    }
}
