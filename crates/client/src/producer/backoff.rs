//! The pauses between connection attempts.

use std::time::{Duration, Instant};

use crate::options::Pauses;

/// The difference between successive pauses.
const STEP: Duration = Duration::from_secs(1);
/// The number of pauses that grow.
const STEPS: u32 = 10;
/// The pause after those.
const LONGEST: Duration = Duration::from_secs(30);
/// The pause if the service is likely to appear soon: after a working connection, and after a
/// socket appeared that does not accept connections yet.
const SHORT: Duration = Duration::from_millis(100);

/// Linearly growing or doubling pauses, as in upstream.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pauses: Pauses,
    failures: u32,
    /// Set if the next failure is followed by a short pause.
    next_is_short: bool,
    next_attempt: Option<Instant>,
    connected_since: Option<Instant>,
}

impl Backoff {
    pub(super) fn new(pauses: Pauses) -> Self {
        Self {
            pauses,
            ..Self::default()
        }
    }

    /// Returns true if an attempt is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next_attempt.is_none_or(|at| at <= now)
    }

    /// Returns the time of the next attempt.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        self.next_attempt
    }

    /// Makes the next attempt due and restarts the pauses, since a socket appeared. The attempt may
    /// be too early, since a socket appears before it accepts connections.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.failures = 0;
        self.next_is_short = true;
        self.next_attempt = Some(now);
    }

    /// Handles a successful attempt.
    pub(super) fn connected(&mut self, now: Instant) {
        self.connected_since = Some(now);
        self.next_attempt = None;
    }

    /// Handles a failed attempt or a lost connection. A connection that lasted longer than the
    /// pause before it restarts the pauses; one that broke at once does not, or a broken service
    /// would get endless attempts.
    pub(super) fn failed(&mut self, now: Instant) {
        let lasted = self.connected_since.take().map(|since| now - since);
        if lasted.is_some_and(|lasted| lasted >= self.longest_so_far()) {
            self.failures = 0;
            self.next_is_short = true;
        }
        let pause = if std::mem::take(&mut self.next_is_short) {
            SHORT
        } else {
            self.failures = self.failures.saturating_add(1);
            self.longest_so_far()
        };
        self.next_attempt = Some(now + pause);
    }

    fn longest_so_far(&self) -> Duration {
        if self.pauses == Pauses::Doubling {
            let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
            return SHORT.saturating_mul(factor.max(1)).min(LONGEST);
        }
        match self.failures {
            0 => SHORT,
            failures @ 1..=STEPS => STEP * failures,
            _ => LONGEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(backoff: &mut Backoff, mut now: Instant, count: usize) -> Vec<u64> {
        let mut pauses = Vec::new();
        for _ in 0..count {
            backoff.failed(now);
            let next = backoff.next_attempt().unwrap();
            assert!(!backoff.is_due(now) && backoff.is_due(next));
            pauses.push((next - now).as_millis() as u64);
            now = next;
        }
        pauses
    }

    #[test]
    fn ipc_030_and_sdk_002_pauses_grow_by_a_second_up_to_ten_and_are_thirty_then() {
        let now = Instant::now();
        let mut backoff = Backoff::new(Pauses::Steps);
        assert!(backoff.is_due(now));
        let mut expected: Vec<u64> = (1..=10).map(|seconds| seconds * 1000).collect();
        expected.extend([30_000; 3]);
        assert_eq!(pauses(&mut backoff, now, 13), expected);
    }

    #[test]
    fn perf_020_pauses_double_from_200_milliseconds_to_30_seconds() {
        let now = Instant::now();
        let mut backoff = Backoff::new(Pauses::Doubling);
        assert!(backoff.is_due(now));
        let mut expected: Vec<u64> = (1..=8).map(|steps| 100 << steps).collect();
        expected.extend([30_000; 40]);
        assert_eq!(pauses(&mut backoff, now, 48), expected);
        // A lost connection is retried almost at once.
        backoff.connected(now);
        let later = now + Duration::from_secs(60);
        assert_eq!(pauses(&mut backoff, later, 3), [100, 200, 400]);
    }

    #[test]
    fn ipc_030_a_socket_that_appears_is_tried_at_once() {
        let now = Instant::now();
        let mut backoff = Backoff::new(Pauses::Steps);
        pauses(&mut backoff, now, 12);
        backoff.hurry(now);
        assert!(backoff.is_due(now));
        // The service may not accept connections yet.
        assert_eq!(pauses(&mut backoff, now, 3), [100, 1000, 2000]);
    }

    #[test]
    fn sdk_002_a_connection_that_worked_makes_the_pauses_start_anew() {
        let now = Instant::now();
        let mut backoff = Backoff::new(Pauses::Steps);
        assert_eq!(pauses(&mut backoff, now, 2), [1000, 2000]);
        backoff.connected(now);
        // Lost at once.
        assert_eq!(pauses(&mut backoff, now, 1), [3000]);
        backoff.connected(now);
        let later = now + Duration::from_secs(3);
        assert_eq!(pauses(&mut backoff, later, 2), [100, 1000]);
    }
}
