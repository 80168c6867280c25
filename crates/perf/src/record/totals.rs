//! The counts so far.

use rustc_hash::FxHashMap;

/// More tasks than this are not remembered at once: if the ring never tells of their end, memory is
/// bounded all the same.
const MAX_TASKS: usize = 1 << 16;

/// The counts of the events of a ring so far, as each sample tells them.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// The timebase, then the followers.
    counts: Vec<u64>,
    /// The counts of each task at its last sample, where the kernel counts for each alone.
    tasks: FxHashMap<u32, Vec<u64>>,
}

impl Totals {
    /// The totals: of the timebase, then of the followers. Empty before the first sample.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Totals as the kernel gives them.
    pub(super) fn replace(&mut self, counters: usize, values: impl Iterator<Item = u64>) {
        self.counts.clear();
        self.counts.extend(values.take(counters));
        self.counts.resize(counters, 0);
    }

    /// The timebase has counted so much more.
    pub(super) fn add_period(&mut self, counters: usize, period: u64) {
        self.counts.resize(counters, 0);
        if let Some(timebase) = self.counts.first_mut() {
            *timebase = timebase.wrapping_add(period);
        }
    }

    /// Totals of one task: all of them are added up.
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
            // If it is less, this is another task with the number of one that has ended.
            let more = value.checked_sub(*before).unwrap_or(value);
            *total = total.wrapping_add(more);
            *before = value;
        }
    }

    /// A task has ended.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.tasks.remove(&tid);
    }
}
