//! When to try again.

use std::time::{Duration, Instant};

/// The first pause.
const FIRST: Duration = Duration::from_millis(100);

/// The longest.
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses that double from attempt to attempt, up to a limit.
#[derive(Debug)]
pub(super) struct Backoff {
    pause: Duration,
    next_attempt: Option<Instant>,
    connected_since: Option<Instant>,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            pause: FIRST,
            next_attempt: None,
            connected_since: None,
        }
    }

    /// Whether it is time for an attempt.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next_attempt.is_none_or(|at| at <= now)
    }

    /// When it will be.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        self.next_attempt
    }

    /// There is reason to hope: the next attempt is due, and the pauses start anew.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.pause = FIRST;
        self.next_attempt = Some(now);
    }

    /// An attempt succeeded.
    pub(super) fn connected(&mut self, now: Instant) {
        self.connected_since = Some(now);
        self.next_attempt = None;
    }

    /// An attempt failed or the connection was lost. A connection that lasted longer than the pause before it makes the
    /// pauses start anew; one that broke at once does not, or a broken service would be called without end.
    pub(super) fn failed(&mut self, now: Instant) {
        if self
            .connected_since
            .take()
            .is_some_and(|since| now - since >= self.pause)
        {
            self.pause = FIRST;
        }
        self.next_attempt = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let mut now = Instant::now();
        let mut backoff = Backoff::new();
        assert!(backoff.is_due(now));
        let mut pauses = Vec::new();
        for _ in 0..11 {
            backoff.failed(now);
            let next = backoff.next_attempt().unwrap();
            assert!(!backoff.is_due(now) && backoff.is_due(next));
            pauses.push((next - now).as_millis());
            now = next;
        }
        let expected = [
            100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000,
        ];
        assert_eq!(pauses, expected);
        backoff.connected(now);
        backoff.failed(now + Duration::from_secs(1));
        assert_eq!(backoff.pause, LONGEST, "lost at once");
        backoff.connected(now);
        backoff.failed(now + LONGEST);
        assert_eq!(backoff.next_attempt(), Some(now + LONGEST + FIRST));
    }
}
