//! The use of a processor by several clients, one after the other.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferretto_http::Client;

use super::state::Processor;
use crate::error::SqlError;

/// The time for which a request waits until the requests before it are done.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The duration of a turn after which free memory is looked for, and the bytes that are worth
/// returning to the system.
const LONG: Duration = Duration::from_millis(10);
const WORTH_RELEASING: u64 = 16 << 20;
/// The time between two looks for the end of a waiting client.
const LOOK: Duration = Duration::from_millis(100);

/// A processor, and the order of the clients that wait for it.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    patience: Duration,
}

#[derive(Debug)]
struct State {
    /// `None` while a client uses it.
    processor: Option<Processor>,
    /// The time at which the client took it, or the last one returned it.
    since: Instant,
    /// The numbers of waiting requests.
    waiting: VecDeque<u64>,
    last: u64,
    /// The message `StatusResult` after the last request.
    status: Vec<u8>,
}

impl Turns {
    pub(super) fn new(processor: Processor, patience: Duration) -> Self {
        let state = State {
            status: processor.status(),
            processor: Some(processor),
            since: Instant::now(),
            waiting: VecDeque::new(),
            last: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            patience,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the message `StatusResult`, also during another client's request.
    pub(super) fn status(&self) -> Vec<u8> {
        self.state().status.clone()
    }

    /// Returns the time since the last request; zero during one.
    pub(super) fn idle(&self) -> Duration {
        let state = self.state();
        match state.processor {
            Some(_) => state.since.elapsed(),
            None => Duration::ZERO,
        }
    }

    /// Waits for the requests before this one. Queries end when the client is gone.
    ///
    /// # Errors
    ///
    /// Fails if the requests before this one take too long.
    pub(super) fn take(&self, client: Option<&Client>) -> Result<Turn<'_>, SqlError> {
        let begin = Instant::now();
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.waiting.push_back(number);
        loop {
            if state.waiting.front() == Some(&number)
                && let Some(mut processor) = state.processor.take()
            {
                state.waiting.pop_front();
                state.since = Instant::now();
                processor.end_with(client.map(Client::gone));
                return Ok(Turn {
                    turns: self,
                    processor: Some(processor),
                });
            }
            let left = self.patience.saturating_sub(begin.elapsed());
            if left.is_zero() || client.is_some_and(Client::is_gone) {
                state.waiting.retain(|waiting| *waiting != number);
                let since = state.since.elapsed().as_secs();
                drop(state);
                self.changed.notify_all();
                return Err(SqlError::new(format!(
                    "Another request has been running for {since} s, so this one was not run. The \
                     other one ends when its client disconnects, or at --timeout."
                )));
            }
            let waited = self.changed.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The exclusive use of a processor, until this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    /// `None` only while it is dropped.
    processor: Option<Processor>,
}

impl Deref for Turn<'_> {
    type Target = Processor;

    fn deref(&self) -> &Processor {
        self.processor.as_ref().expect("there until the drop")
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Processor {
        self.processor.as_mut().expect("there until the drop")
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // After a panic, the processor is still usable: requests replace its parts as a whole.
        let mut state = self.turns.state();
        if let Some(processor) = &self.processor {
            state.status = processor.status();
        }
        state.processor = self.processor.take();
        let was_long = state.since.elapsed() >= LONG;
        state.since = Instant::now();
        drop(state);
        self.turns.changed.notify_all();
        // Others use the machine, too. The threads that answer keep what they have freed.
        if was_long && ferretto_malloc::heap().is_some_and(|heap| heap.free >= WORTH_RELEASING) {
            ferretto_malloc::release();
        }
    }
}
