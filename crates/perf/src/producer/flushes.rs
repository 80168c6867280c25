//! Flushes that have not been answered yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::barrier::Barrier;
use crate::output::{Mailbox, Message};

/// The time that a flush waits for unwinders. The service waits for five seconds by default.
const LIMIT: Duration = Duration::from_secs(3);

/// The time that it waits for the writer then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Flushes in order.
#[derive(Debug, Default)]
pub(super) struct Flushes(VecDeque<Pending>);

#[derive(Debug)]
struct Pending {
    barrier: Arc<Barrier>,
    /// When it has taken too long.
    until: Instant,
    /// The writer has been told that it has.
    is_overdue: bool,
}

impl Flushes {
    pub(super) fn add(&mut self, now: Instant, barrier: Arc<Barrier>) {
        self.0.push_back(Pending {
            barrier,
            until: now + LIMIT,
            is_overdue: false,
        });
    }

    /// When the next one has taken too long.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let until = self.0.iter().map(|pending| pending.until).min();
        until.map(|until| until.saturating_duration_since(now))
    }

    /// Has those that take too long answered with the packets written so far; returns those that
    /// have to be answered without the writer, which waits for something else.
    pub(super) fn check(&mut self, now: Instant, mailbox: &Mailbox) -> Vec<Arc<Barrier>> {
        let mut given_up = Vec::new();
        self.0.retain_mut(|pending| {
            if pending.barrier.is_claimed() {
                return false;
            }
            if now < pending.until {
                return true;
            }
            if pending.is_overdue {
                given_up.push(Arc::clone(&pending.barrier));
                return false;
            }
            mailbox.send(Message::Overdue(Arc::clone(&pending.barrier)));
            pending.is_overdue = true;
            pending.until = now + PATIENCE;
            true
        });
        given_up
    }

    /// Nobody waits for them any more.
    pub(super) fn forget(&mut self) {
        for pending in self.0.drain(..) {
            pending.barrier.claim();
        }
    }
}
