//! Pending flushes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::barrier::Barrier;
use crate::output::{Mailbox, Message};

/// The time limit for unwinders in a flush. The service waits for five seconds by default.
const LIMIT: Duration = Duration::from_secs(3);

/// The subsequent time limit for the writer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pending flushes in order.
#[derive(Debug, Default)]
pub(super) struct Flushes(VecDeque<Pending>);

#[derive(Debug)]
struct Pending {
    barrier: Arc<Barrier>,
    /// The deadline.
    until: Instant,
    /// Set once the writer has been notified of the timeout.
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

    /// Returns the time until the next deadline.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let until = self.0.iter().map(|pending| pending.until).min();
        until.map(|until| until.saturating_duration_since(now))
    }

    /// Completes overdue flushes with the packets written so far. Returns the flushes to be
    /// answered without the writer, which is blocked.
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

    /// Drops all pending flushes.
    pub(super) fn forget(&mut self) {
        for pending in self.0.drain(..) {
            pending.barrier.claim();
        }
    }
}
