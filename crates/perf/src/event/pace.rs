//! The choice between callstacks of all waits and of some.

/// The time for which twice the limit is tolerated, as a divisor of a second.
const PATIENCE_DIVISOR: u64 = 4;

/// The rate of a CPU's waits, as the fill level of a bucket that leaks: it rises by each wait, and
/// falls by the limit each second. When it is full, some waits have a callstack; when it is empty
/// again, all have.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// The number of waits per second above which only some have a callstack.
    limit: u64,
    /// The fill level, in billionths of a wait.
    level: u64,
    /// The time of the last wait.
    last: u64,
    is_thinned: bool,
}

/// The waits that have a callstack from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    ToAll,
    ToSome,
}

const SECOND: u64 = 1_000_000_000;

impl Pace {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            level: 0,
            last: 0,
            is_thinned: false,
        }
    }

    fn capacity(&self) -> u64 {
        (self.limit / PATIENCE_DIVISOR)
            .max(1)
            .saturating_mul(SECOND)
    }

    /// Adds a wait that began at `time`, in nanoseconds.
    pub(super) fn add(&mut self, time: u64) {
        self.leak_until(time);
        self.level = (self.level + SECOND).min(self.capacity());
    }

    fn leak_until(&mut self, time: u64) {
        // Times may go backwards a little; the first one is the start.
        let elapsed = time.saturating_sub(self.last);
        self.last = self.last.max(time);
        self.level = self
            .level
            .saturating_sub(elapsed.saturating_mul(self.limit));
    }

    /// Returns the change to some callstacks if there are too many waits.
    pub(super) fn too_many(&mut self) -> Option<Change> {
        let is_full = !self.is_thinned && self.level >= self.capacity();
        self.is_thinned |= is_full;
        is_full.then_some(Change::ToSome)
    }

    /// Returns the change back to all callstacks if there were few enough waits until `now`.
    pub(super) fn few_enough(&mut self, now: u64) -> Option<Change> {
        self.leak_until(now);
        let is_calm = self.is_thinned && self.level == 0;
        self.is_thinned &= !is_calm;
        is_calm.then_some(Change::ToAll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Adds waits at a rate for some time, and returns the changes with their times in
    /// milliseconds.
    fn changes(pace: &mut Pace, from_ms: u64, for_ms: u64, per_ms: u64) -> Vec<(u64, Change)> {
        let mut changes = Vec::new();
        for ms in from_ms..from_ms + for_ms {
            for i in 0..per_ms {
                pace.add(ms * MS + i * MS / per_ms);
                changes.extend(pace.too_many().map(|change| (ms, change)));
            }
            let change = pace.few_enough((ms + 1) * MS);
            changes.extend(change.map(|change| (ms + 1, change)));
        }
        changes
    }

    #[test]
    fn waits_below_the_limit_and_short_bursts_are_all_sampled() {
        let mut pace = Pace::new(10_000);
        assert_eq!(changes(&mut pace, 1000, 5000, 9), []);
        // 2,400 waits at once.
        assert_eq!(changes(&mut pace, 7000, 1, 2400), []);
        assert_eq!(changes(&mut pace, 7001, 2000, 0), []);
    }

    #[test]
    fn above_the_limit_some_waits_are_sampled_until_the_rate_falls() {
        let mut pace = Pace::new(10_000);
        let busy = changes(&mut pace, 1000, 3000, 200);
        assert_eq!(busy, [(1013, Change::ToSome)]);
        // A rate just below the limit takes time; no waits at all, a quarter of a second.
        assert_eq!(changes(&mut pace, 4000, 200, 0), []);
        assert_eq!(changes(&mut pace, 4200, 300, 0), [(4250, Change::ToAll)]);
    }
}
