//! The processor time that goes with events.

use crate::track_event::clock;
use crate::track_event::filter::Filter;

/// The state needed to say how much processor time a thread took since its last event.
#[derive(Debug)]
pub(super) struct ThreadTime {
    /// Closer events count as having taken none, in nanoseconds.
    interval: u64,
    last: u64,
    /// When that was taken, if it was.
    taken: Option<u64>,
}

impl ThreadTime {
    /// `None` if it is not asked for.
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

    /// The time since it was last taken, in units of `unit` nanoseconds; 0 if that is not long ago.
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
