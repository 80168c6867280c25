//! Periodic work, aligned to multiples of its period.

use std::time::Duration;

const NS_PER_MS: u64 = 1_000_000;

/// A periodic timer on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timer {
    due_ns: u64,
}

impl Timer {
    /// Creates a timer that is due at once.
    pub(crate) fn now(now_ns: u64) -> Self {
        Self { due_ns: now_ns }
    }

    /// Creates a timer that is due at the next multiple of the period after `now_ns`.
    pub(crate) fn next(now_ns: u64, period_ms: u32) -> Self {
        let period = u64::from(period_ms.max(1)) * NS_PER_MS;
        Self {
            due_ns: (now_ns / period + 1) * period,
        }
    }

    pub(crate) fn is_due(self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    pub(crate) fn until(self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.due_ns.saturating_sub(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_fall_on_multiples_of_the_period() {
        let timer = Timer::next(250 * NS_PER_MS + 1, 100);
        assert!(!timer.is_due(300 * NS_PER_MS - 1));
        assert!(timer.is_due(300 * NS_PER_MS));
        assert_eq!(timer.until(299 * NS_PER_MS), Duration::from_millis(1));
        assert_eq!(
            Timer::next(300 * NS_PER_MS, 100).until(300 * NS_PER_MS),
            Duration::from_millis(100)
        );
        assert!(Timer::now(5).is_due(5));
    }
}
