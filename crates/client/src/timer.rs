//! The periodic work of data sources.

use std::time::Duration;

/// A periodic timer. Times are nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    due: u64,
}

impl Timer {
    /// Returns a timer that is due at a time.
    pub fn at(due: u64) -> Self {
        Self { due }
    }

    /// Returns a timer that is due at the next point of a grid after `now`: the multiples of the
    /// period, shifted by an offset that `salt` decides, so that timers of the same period do not
    /// fire all at once. A `salt` of 0 does not shift them.
    pub fn next(now: u64, period: Duration, salt: u64) -> Self {
        let period = (period.as_nanos() as u64).max(1);
        let offset = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) % period;
        let passed = now.wrapping_sub(offset) % period;
        Self {
            due: now + (period - passed),
        }
    }

    /// Returns true if it is due.
    pub fn is_due(self, now: u64) -> bool {
        now >= self.due
    }

    /// Returns the time until it is due.
    pub fn until(self, now: u64) -> Duration {
        Duration::from_nanos(self.due.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_fall_on_a_grid_that_differs_between_sources() {
        let period = Duration::from_millis(100);
        let now = 123_456_789_000;
        let mut offsets = Vec::new();
        for salt in 1..4 {
            let first = Timer::next(now, period, salt);
            let second = Timer::next(first.due, period, salt);
            assert!(!first.is_due(first.due - 1) && first.is_due(first.due));
            assert!(first.until(now) <= period && first.until(now) > Duration::ZERO);
            assert_eq!(second.until(first.due), period);
            offsets.push(first.due % 100_000_000);
        }
        offsets.dedup();
        assert_eq!(offsets.len(), 3);
        assert_eq!(Timer::at(5).until(10), Duration::ZERO);
    }

    #[test]
    fn ticks_without_salt_fall_on_multiples_of_the_period() {
        const MS: u64 = 1_000_000;
        let period = Duration::from_millis(100);
        let timer = Timer::next(250 * MS + 1, period, 0);
        assert!(!timer.is_due(300 * MS - 1));
        assert!(timer.is_due(300 * MS));
        assert_eq!(timer.until(299 * MS), Duration::from_millis(1));
        assert_eq!(
            Timer::next(300 * MS, period, 0).until(300 * MS),
            Duration::from_millis(100)
        );
        assert!(Timer::at(5).is_due(5));
    }
}
