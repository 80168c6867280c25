//! When to try again.

use std::time::{Duration, Instant};

use crate::options::Pauses;

/// Each pause is longer than the one before by this much.
const STEP: Duration = Duration::from_secs(1);
/// The number of pauses that grow.
const STEPS: u32 = 10;
/// All pauses after those.
const LONGEST: Duration = Duration::from_secs(30);
/// The pause where a service is likely to be there in a moment: after a connection that worked, and
/// after a socket appeared that did not answer yet.
const SHORT: Duration = Duration::from_millis(100);

/// Pauses of 1, 2, … 10 and then 30 seconds, as upstream's clients make them, or such that double.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pauses: Pauses,
    failures: u32,
    /// The next failure is followed by a short pause.
    hopeful: bool,
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

    /// Returns true if it is time for an attempt.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next_attempt.is_none_or(|at| at <= now)
    }

    /// When it will be.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        self.next_attempt
    }

    /// A socket appeared: the next attempt is due, and the pauses start anew. It may come too
    /// early, as a socket appears before it can be connected to.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.failures = 0;
        self.hopeful = true;
        self.next_attempt = Some(now);
    }

    /// An attempt succeeded.
    pub(super) fn connected(&mut self, now: Instant) {
        self.connected_since = Some(now);
        self.next_attempt = None;
    }

    /// An attempt failed or the connection was lost. A connection that lasted longer than the pause
    /// before it makes the pauses start anew; one that broke at once does not, or a broken service
    /// would be called without end.
    pub(super) fn failed(&mut self, now: Instant) {
        let lasted = self.connected_since.take().map(|since| now - since);
        if lasted.is_some_and(|lasted| lasted >= self.longest_so_far()) {
            self.failures = 0;
            self.hopeful = true;
        }
        let pause = if std::mem::take(&mut self.hopeful) {
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
        // A connection that was lost is tried again almost at once.
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
        // It may not answer yet.
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
