//! Sums of counts.

use rustc_hash::FxHashMap;

/// The largest number of remembered tasks, which bounds memory if the ring does not report their
/// ends.
const MAX_TASKS: usize = 1 << 16;

/// The counts of a ring's events so far, computed from its samples.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// The timebase, then the followers.
    counts: Vec<u64>,
    /// The counts of each task at its last sample, if the kernel counts tasks separately.
    tasks: FxHashMap<u32, Vec<u64>>,
}

impl Totals {
    /// Returns the totals: of the timebase, then of the followers. Empty before the first sample.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Replaces the totals with those of the kernel.
    pub(super) fn replace(&mut self, counters: usize, values: impl Iterator<Item = u64>) {
        self.counts.clear();
        self.counts.extend(values.take(counters));
        self.counts.resize(counters, 0);
    }

    /// Adds a period of the timebase.
    pub(super) fn add_period(&mut self, counters: usize, period: u64) {
        self.counts.resize(counters, 0);
        if let Some(timebase) = self.counts.first_mut() {
            *timebase = timebase.wrapping_add(period);
        }
    }

    /// Adds the increase of one task's counts.
    pub(super) fn add_task(
        &mut self,
        counters: usize,
        tid: u32,
        values: impl Iterator<Item = u64>,
    ) {
        if self.tasks.len() >= MAX_TASKS && !self.tasks.contains_key(&tid) {
            self.tasks.clear();
        }
        self.counts.resize(counters, 0);
        let before = self.tasks.entry(tid).or_default();
        before.resize(counters, 0);
        for ((total, before), value) in self.counts.iter_mut().zip(before).zip(values) {
            // A smaller value is from another task with a reused id.
            let more = value.checked_sub(*before).unwrap_or(value);
            *total = total.wrapping_add(more);
            *before = value;
        }
    }

    /// Forgets a task that has ended.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.tasks.remove(&tid);
    }
}
