//! Flushes that have not been answered yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::barrier::Barrier;
use crate::output::{Mailbox, Message};

/// How long a flush waits for unwinders. The service waits for five seconds by default.
const LIMIT: Duration = Duration::from_secs(3);

/// Flushes in order, with the time each was asked for.
#[derive(Debug, Default)]
pub(super) struct Flushes(VecDeque<(Instant, Arc<Barrier>)>);

impl Flushes {
    pub(super) fn add(&mut self, now: Instant, barrier: Arc<Barrier>) {
        self.0.push_back((now, barrier));
    }

    /// When the next one has taken too long.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let (since, _) = self.0.front()?;
        Some((*since + LIMIT).saturating_duration_since(now))
    }

    /// Has those that take too long answered with what has been written.
    pub(super) fn check(&mut self, now: Instant, mailbox: &Mailbox) {
        while let Some((since, barrier)) = self.0.front() {
            if !barrier.is_settled() {
                if now < *since + LIMIT {
                    break;
                }
                mailbox.send(Message::Overdue(Arc::clone(barrier)));
            }
            self.0.pop_front();
        }
    }

    /// Nobody waits for them any more.
    pub(super) fn forget(&mut self) {
        for (_, barrier) in self.0.drain(..) {
            barrier.settle();
        }
    }
}
