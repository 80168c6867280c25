//! The limits of connections. New connections that have not sent the token replace the oldest ones
//! of their kind, but never connections that have sent it.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of connections that have not sent the token.
const MAX_UNAUTHENTICATED: usize = 32;
/// The maximum number of connections that have sent the token.
const MAX_AUTHENTICATED: usize = 64;
/// The maximum number of connections, including closing ones.
const MAX_ALL: usize = 128;

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    unauthenticated: VecDeque<(u64, TcpStream)>,
    next: u64,
    authenticated: usize,
    all: usize,
}

/// The place of a connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Entry {
    gate: Arc<Gate>,
    number: u64,
    is_authenticated: bool,
}

impl Gate {
    /// Adds a connection that has not sent the token. Closes the oldest of that kind if there are
    /// too many. Returns `None` if there is no place.
    pub(crate) fn enter(self: &Arc<Self>, stream: &TcpStream) -> Option<Entry> {
        let copy = stream.try_clone().ok()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.unauthenticated.len() >= MAX_UNAUTHENTICATED
            && let Some((_, oldest)) = state.unauthenticated.pop_front()
        {
            // The thread that serves the connection notices its end.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        if state.all >= MAX_ALL {
            return None;
        }
        state.all += 1;
        state.next += 1;
        let number = state.next;
        state.unauthenticated.push_back((number, copy));
        Some(Entry {
            gate: self.clone(),
            number,
            is_authenticated: false,
        })
    }
}

impl Entry {
    /// Marks the connection as authenticated. Returns false if there are too many of these.
    pub(crate) fn admit(&mut self) -> bool {
        if self.is_authenticated {
            return true;
        }
        let mut state = self
            .gate
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if state.authenticated >= MAX_AUTHENTICATED {
            return false;
        }
        state.authenticated += 1;
        state
            .unauthenticated
            .retain(|(number, _)| *number != self.number);
        self.is_authenticated = true;
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
        if self.is_authenticated {
            state.authenticated -= 1
        } else {
            state
                .unauthenticated
                .retain(|(number, _)| *number != self.number)
        }
    }
}
