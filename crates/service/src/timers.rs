//! Deadlines on two clocks: one that stops during suspend, and one that does not.

use std::collections::BTreeMap;

use crate::clocks::{Clocks, NS_PER_MS};
use crate::ids::FlushId;

/// The action of a session at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Duration,
    Snapshot,
    FileWrite,
    PeriodicFlush,
    ClearState,
    SlowStart,
    /// The end of the wait for producers that have not proved that they confirm flushes.
    FirstFlushWait(FlushId),
    FlushTimeout(FlushId),
    /// The same for stops.
    FirstStopWait,
    StopTimeout,
    SlowEnd,
    TriggerTimeout,
    TriggerStop,
    /// The clone trigger of this number in the session.
    CloneTrigger(u64),
}

/// The clock that measures a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimeBase {
    /// `CLOCK_MONOTONIC`: suspend does not count.
    Monotonic,
    /// `CLOCK_BOOTTIME`: suspend counts.
    Boottime,
}

/// The handle of a pending deadline, for [`Timers::cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey {
    base: TimeBase,
    deadline: u64,
    /// The order in which timers were set, for equal deadlines.
    sequence: u64,
}

/// Pending deadlines, each with its action.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    pending: BTreeMap<TimerKey, T>,
    last_sequence: u64,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Self {
            pending: BTreeMap::new(),
            last_sequence: 0,
        }
    }

    /// Sets a deadline `delay_ms` from now, with its action.
    pub(crate) fn set(&mut self, now: &Clocks, base: TimeBase, delay_ms: u64, what: T) -> TimerKey {
        let start = match base {
            TimeBase::Monotonic => now.monotonic,
            TimeBase::Boottime => now.boottime,
        };
        let deadline = start.saturating_add(delay_ms.saturating_mul(NS_PER_MS));
        self.last_sequence += 1;
        let key = TimerKey {
            base,
            deadline,
            sequence: self.last_sequence,
        };
        self.pending.insert(key, what);
        key
    }

    /// Cancels a deadline. Does nothing if it has passed.
    pub(crate) fn cancel(&mut self, key: TimerKey) {
        self.pending.remove(&key);
    }

    /// Cancels every deadline for which `gone` returns true.
    pub(crate) fn cancel_if(&mut self, gone: impl Fn(&T) -> bool) {
        self.pending.retain(|_, what| !gone(what));
    }

    /// Takes the next deadline that has passed, if any.
    pub(crate) fn pop_due(&mut self, now: &Clocks) -> Option<T> {
        let key = [TimeBase::Monotonic, TimeBase::Boottime]
            .into_iter()
            .filter_map(|base| self.first(base))
            .filter(|key| remaining(now, key) == 0)
            .min_by_key(|key| (overdue_since(now, key), key.sequence))?;
        self.pending.remove(&key)
    }

    /// Returns the earliest deadline as a `CLOCK_BOOTTIME` reading, assuming no suspend in between.
    pub(crate) fn next_boottime(&self, now: &Clocks) -> Option<u64> {
        [TimeBase::Monotonic, TimeBase::Boottime]
            .into_iter()
            .filter_map(|base| self.first(base))
            .map(|key| now.boottime.saturating_add(remaining(now, &key)))
            .min()
    }

    /// Returns true if a deadline has passed.
    pub(crate) fn is_due(&self, now: &Clocks) -> bool {
        [TimeBase::Monotonic, TimeBase::Boottime]
            .into_iter()
            .filter_map(|base| self.first(base))
            .any(|key| remaining(now, &key) == 0)
    }

    /// Returns the action of the earliest deadline.
    pub(crate) fn next(&self, now: &Clocks) -> Option<&T> {
        let key = [TimeBase::Monotonic, TimeBase::Boottime]
            .into_iter()
            .filter_map(|base| self.first(base))
            .min_by_key(|key| remaining(now, key))?;
        self.pending.get(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    fn first(&self, base: TimeBase) -> Option<TimerKey> {
        let from = TimerKey {
            base,
            deadline: 0,
            sequence: 0,
        };
        let to = TimerKey {
            base,
            deadline: u64::MAX,
            sequence: u64::MAX,
        };
        self.pending.range(from..=to).next().map(|(key, _)| *key)
    }
}

fn reading(now: &Clocks, base: TimeBase) -> u64 {
    match base {
        TimeBase::Monotonic => now.monotonic,
        TimeBase::Boottime => now.boottime,
    }
}

fn remaining(now: &Clocks, key: &TimerKey) -> u64 {
    key.deadline.saturating_sub(reading(now, key.base))
}

/// Orders the due timers of both clocks by the time since their deadline, longest first.
fn overdue_since(now: &Clocks, key: &TimerKey) -> std::cmp::Reverse<u64> {
    std::cmp::Reverse(reading(now, key.base).saturating_sub(key.deadline))
}

/// Returns the delay until the next multiple of `period_ms` on the monotonic clock: 1 to
/// `period_ms`.
///
/// Work with the same period in different sessions so happens at the same time and wakes the
/// machine only once.
pub(crate) fn aligned_delay_ms(now: &Clocks, period_ms: u64) -> u64 {
    let period = period_ms.max(1);
    period - now.monotonic_ms() % period
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono_ms: u64, boot_ms: u64) -> Clocks {
        Clocks {
            monotonic: mono_ms * NS_PER_MS,
            boottime: boot_ms * NS_PER_MS,
            ..Clocks::default()
        }
    }

    #[test]
    fn due_in_order_across_clocks() {
        let mut timers = Timers::new();
        let start = at(100, 1000);
        timers.set(&start, TimeBase::Boottime, 30, "boot 30");
        timers.set(&start, TimeBase::Monotonic, 10, "mono 10");
        let cancelled = timers.set(&start, TimeBase::Monotonic, 5, "mono 5");
        timers.cancel(cancelled);
        assert_eq!(timers.next_boottime(&start), Some(1010 * NS_PER_MS));
        assert_eq!(timers.pop_due(&at(109, 1009)), None);
        let later = at(140, 1040);
        assert_eq!(timers.pop_due(&later), Some("mono 10"));
        assert_eq!(timers.pop_due(&later), Some("boot 30"));
        assert_eq!(timers.pop_due(&later), None);
        assert_eq!(timers.next_boottime(&later), None);
    }

    #[test]
    fn suspend_counts_only_on_boottime() {
        let mut timers = Timers::new();
        let start = at(0, 0);
        timers.set(&start, TimeBase::Boottime, 100, "boot");
        timers.set(&start, TimeBase::Monotonic, 100, "mono");
        let resumed = at(10, 500);
        assert_eq!(timers.pop_due(&resumed), Some("boot"));
        assert_eq!(timers.pop_due(&resumed), None);
        assert_eq!(timers.next_boottime(&resumed), Some(590 * NS_PER_MS));
    }

    #[test]
    fn aligned_delay_is_one_to_period() {
        assert_eq!(aligned_delay_ms(&at(0, 0), 100), 100);
        assert_eq!(aligned_delay_ms(&at(1, 0), 100), 99);
        assert_eq!(aligned_delay_ms(&at(199, 0), 100), 1);
        assert_eq!(aligned_delay_ms(&at(5, 0), 0), 1);
    }
}
