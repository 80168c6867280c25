//! The queue of samples for one unwinder.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Job;
use crate::barrier::SourceKey;
use crate::config::Callstacks;

/// The number of pending samples per data source. Upstream's queue has the same size, but all its
/// sources share it.
pub(crate) const MAX_QUEUED: usize = 1024;
/// The number of jobs that an unwinder takes from one source before it moves on to the next.
const TURN: usize = 16;

/// The state of a data source that all unwinders share.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) key: SourceKey,
    pub(crate) callstacks: Callstacks,
    /// The number of pending samples.
    queued: AtomicUsize,
    /// Set once the source is removed; its pending samples are dropped.
    purged: AtomicBool,
}

impl Source {
    pub(crate) fn new(key: SourceKey, callstacks: Callstacks) -> Arc<Self> {
        Arc::new(Self {
            key,
            callstacks,
            queued: AtomicUsize::new(0),
            purged: AtomicBool::new(false),
        })
    }

    /// Reserves one entry of the queue. Returns false if it is full.
    pub(super) fn reserve(&self) -> bool {
        if self.queued.load(Ordering::Relaxed) >= MAX_QUEUED {
            return false;
        }
        self.queued.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Returns the number of pending samples.
    pub(super) fn queued(&self) -> i32 {
        self.queued.load(Ordering::Relaxed) as i32
    }

    pub(super) fn release(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// Drops pending samples instead of unwinding them.
    pub(super) fn purge(&self) {
        self.purged.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_purged(&self) -> bool {
        self.purged.load(Ordering::Relaxed)
    }
}

/// The jobs of one data source for one unwinder.
#[derive(Debug)]
struct Lane {
    source: Arc<Source>,
    jobs: VecDeque<Job>,
}

#[derive(Debug, Default)]
struct Lanes {
    /// The lanes; the first one is next.
    lanes: VecDeque<Lane>,
    is_closed: bool,
}

/// The queue of one unwinder. Sources take turns, so that a busy source does not delay the others.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    arrived: Condvar,
}

/// The result of taking jobs.
#[derive(Debug)]
pub(super) enum Taken {
    /// Jobs of one source, in order.
    Jobs(Arc<Source>),
    /// There are no jobs at the moment.
    Nothing,
    /// The queue is closed.
    End,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends jobs to those of the same source. Never waits for the unwinder.
    pub(super) fn push(&self, source: &Arc<Source>, jobs: &mut Vec<Job>) {
        let mut lanes = self.lock();
        let known = lanes
            .lanes
            .iter_mut()
            .find(|lane| lane.source.key == source.key);
        match known {
            Some(lane) => lane.jobs.extend(jobs.drain(..)),
            None => lanes.lanes.push_back(Lane {
                source: Arc::clone(source),
                jobs: jobs.drain(..).collect(),
            }),
        }
        // After the lock is released; otherwise the woken thread would wait for it.
        drop(lanes);
        self.arrived.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Moves the next jobs into `jobs`; waits for jobs if `may_wait`.
    pub(super) fn take(&self, jobs: &mut Vec<Job>, may_wait: bool) -> Taken {
        let mut lanes = self.lock();
        loop {
            if let Some(at) = lanes.lanes.iter().position(|lane| !lane.jobs.is_empty()) {
                return take_turn(&mut lanes.lanes, at, jobs);
            }
            if lanes.is_closed {
                return Taken::End;
            }
            if !may_wait {
                return Taken::Nothing;
            }
            let woken = self.arrived.wait(lanes);
            lanes = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Takes some jobs of this lane and moves the lane to the end.
fn take_turn(lanes: &mut VecDeque<Lane>, at: usize, jobs: &mut Vec<Job>) -> Taken {
    let Some(mut lane) = lanes.remove(at) else {
        return Taken::Nothing;
    };
    let count = lane.jobs.len().min(TURN);
    jobs.extend(lane.jobs.drain(..count));
    let source = Arc::clone(&lane.source);
    let has_ended = matches!(jobs.last(), Some(Job::End)) && lane.jobs.is_empty();
    if !has_ended {
        lanes.push_back(lane);
    }
    Taken::Jobs(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pids(jobs: &[Job]) -> Vec<u32> {
        let pid = |job: &Job| match job {
            Job::TimedOut(pid) => *pid,
            _ => 0,
        };
        jobs.iter().map(pid).collect()
    }

    #[test]
    fn perf_032_sources_take_turns_and_each_keeps_its_order() {
        let queue = Queue::default();
        let [busy, other] = [1, 2].map(|id| Source::new(SourceKey(id), Callstacks::default()));
        queue.push(&busy, &mut (1..=40).map(Job::TimedOut).collect());
        queue.push(&other, &mut vec![Job::TimedOut(100), Job::End]);
        let mut order = Vec::new();
        let mut jobs = Vec::new();
        while let Taken::Jobs(source) = queue.take(&mut jobs, false) {
            order.push((source.key.0, pids(&jobs)));
            jobs.clear();
        }
        let expected = [
            (1, (1..=16).collect()),
            (2, vec![100, 0]),
            (1, (17..=32).collect()),
            (1, (33..=40).collect::<Vec<u32>>()),
        ];
        assert_eq!(order, expected);
        queue.close();
        assert!(matches!(queue.take(&mut jobs, true), Taken::End));
    }

    #[test]
    fn perf_032_a_source_has_1024_entries() {
        let source = Source::new(SourceKey(1), Callstacks::default());
        assert!((0..MAX_QUEUED).all(|_| source.reserve()));
        assert!(!source.reserve());
        source.release();
        assert!(source.reserve() && !source.reserve());
    }
}
