//! The progress of connections to services, for threads that wait for them.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::primitive::lock;

/// Longer than any program runs.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Connecting,
    /// All sources registered before [`Command::RoundTrip`](super::queue::Command::RoundTrip) with
    /// this number take part in the sessions that were running then.
    RoundTripped(u64),
    /// There is currently no service.
    Absent,
}

#[derive(Debug)]
struct Connection {
    progress: Progress,
    /// The default time to wait for it.
    patience: Duration,
    /// Set if a caller continued without it: recordings that start now are late.
    is_late: bool,
}

impl Connection {
    fn is_awaited(&self, number: u64) -> bool {
        match self.progress {
            Progress::Connecting => true,
            Progress::RoundTripped(answered) => answered < number,
            Progress::Absent => false,
        }
    }

    /// Returns the time to wait for it: zero if a caller has waited in vain before.
    fn patience(&self, limit: Option<Duration>) -> Duration {
        let usual = if self.is_late {
            Duration::ZERO
        } else {
            self.patience
        };
        limit.unwrap_or(usual).min(FOREVER)
    }
}

/// All connections, in the order of their setup.
#[derive(Debug, Default)]
pub(super) struct Connections {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    all: Vec<Connection>,
    /// The last assigned number.
    numbers: u64,
}

impl Connections {
    /// Adds a connection. `is_late` is true if the program has not waited for it.
    pub(super) fn add(&self, progress: Progress, patience: Duration, is_late: bool) {
        lock(&self.state).all.push(Connection {
            progress,
            patience,
            is_late,
        });
    }

    pub(super) fn set_progress(&self, link: usize, progress: Progress) {
        if let Some(known) = lock(&self.state).all.get_mut(link) {
            known.progress = progress;
            // Recordings from now on start in time, or with a service that was waited for in vain.
            known.is_late = false;
        }
        self.changed.notify_all();
    }

    /// Returns true if a caller has continued without this connection, so that recordings that
    /// start now are late.
    pub(super) fn is_late(&self, link: usize) -> bool {
        let state = lock(&self.state);
        state.all.get(link).is_some_and(|known| known.is_late)
    }

    /// Returns true if a caller has continued without one of them.
    pub(super) fn is_any_late(&self) -> bool {
        lock(&self.state).all.iter().any(|known| known.is_late)
    }

    /// Returns the longest default time to wait for a service whose recordings are not known yet;
    /// `None` if there is no such service.
    pub(super) fn patience_for_first(&self) -> Option<Duration> {
        let state = lock(&self.state);
        let connecting = state.all.iter();
        let connecting = connecting.filter(|known| known.progress == Progress::Connecting);
        connecting.map(|known| known.patience).max()
    }

    /// Returns a number to [wait](Self::wait) for; `None` if no connection would be waited for.
    pub(super) fn number(&self, limit: Option<Duration>) -> Option<u64> {
        let mut state = lock(&self.state);
        let mut patiences = state.all.iter().map(|known| known.patience(limit));
        if patiences.all(|patience| patience.is_zero()) {
            return None;
        }
        state.numbers += 1;
        Some(state.numbers)
    }

    /// Waits until all connections have answered the request with this number, at most for `limit`
    /// or each connection's default time, and not for absent services. Returns true if there is a
    /// service.
    pub(super) fn wait(&self, number: u64, limit: Option<Duration>) -> bool {
        let begun = Instant::now();
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let awaited = state.all.iter().filter(|known| known.is_awaited(number));
            let due = awaited.map(|known| begun + known.patience(limit));
            let Some(due) = due.filter(|due| *due > now).min() else {
                break;
            };
            let waited = self.changed.wait_timeout(state, due - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        for known in &mut state.all {
            known.is_late |= known.is_awaited(number) && !known.patience(limit).is_zero();
        }
        let mut all = state.all.iter();
        all.any(|known| matches!(known.progress, Progress::RoundTripped(_)))
    }
}
