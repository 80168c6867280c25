//! The processor time of threads, which events carry.

use crate::track_event::clock;
use crate::track_event::filter::Filter;

/// The processor time that a thread used since its last event.
#[derive(Debug)]
pub(super) struct ThreadTime {
    /// The minimum interval between two readings, in nanoseconds. Events in between carry a
    /// difference of 0.
    interval: u64,
    last: u64,
    /// The time of the last reading, if there is one.
    taken: Option<u64>,
}

impl ThreadTime {
    /// Creates the state; `None` if the filter does not ask for processor time.
    pub(super) fn new(filter: &Filter) -> Option<Self> {
        filter.thread_time.then_some(Self {
            interval: filter.thread_time_interval,
            last: 0,
            taken: None,
        })
    }

    pub(super) fn reset(&mut self) {
        self.last = 0;
        self.taken = None;
    }

    /// Returns the processor time since the last reading, in units of `unit` nanoseconds; 0 within
    /// the minimum interval.
    pub(super) fn take(&mut self, now: u64, unit: u64) -> i64 {
        if let Some(taken) = self.taken
            && now < taken.saturating_add(self.interval)
        {
            return 0;
        }
        let time = clock::thread_time();
        let units = time.saturating_sub(self.last) / unit;
        self.last = time;
        self.taken = Some(now);
        i64::try_from(units).unwrap_or(i64::MAX)
    }
}
