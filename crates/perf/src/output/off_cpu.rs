//! Matching of callstacks of threads that left the CPU with the durations of their absences.

use rustc_hash::FxHashMap;

use super::mailbox::{Resumed, Unsampled};
use super::{Content, Sample, Task};
use crate::record::CpuMode;

/// The largest number of waiting threads. Machines have fewer.
const MAX_WAITING: usize = 1 << 18;

/// Samples without a duration yet, and durations whose sample is still being unwound.
#[derive(Debug, Default)]
pub(super) struct OffCpuSamples {
    /// Samples by thread and time.
    samples: FxHashMap<(u32, u64), Sample>,
    ended: FxHashMap<(u32, u64), Resumed>,
    /// The times without a sample at the end, and the time of the end.
    unsampled: Vec<Unsampled>,
    now: u64,
}

impl OffCpuSamples {
    /// Adds the sample of a thread that left the CPU. Returns the sample if it is complete.
    pub(super) fn left(&mut self, mut sample: Sample) -> Option<Sample> {
        let key = (sample.task?.tid, sample.time);
        match self.ended.remove(&key) {
            Some(resumed) => {
                weigh(&mut sample, &resumed);
                Some(sample)
            }
            None => {
                if self.samples.len() < MAX_WAITING {
                    self.samples.insert(key, sample);
                }
                None
            }
        }
    }

    /// Adds the end of an absence. Returns the sample if it is complete.
    pub(super) fn resumed(&mut self, resumed: &Resumed) -> Option<Sample> {
        let key = (resumed.tid, resumed.since);
        if let Some(mut sample) = self.samples.remove(&key) {
            weigh(&mut sample, resumed);
            return Some(sample);
        }
        if self.ended.len() < MAX_WAITING {
            self.ended.insert(key, *resumed);
        }
        None
    }

    /// Adds the times without a sample at the end of the recording, which is at `now`.
    pub(super) fn unsampled(&mut self, unsampled: Vec<Unsampled>, now: u64) {
        self.unsampled = unsampled;
        self.now = now;
    }

    /// Returns the samples of threads that are still off the CPU when the recording ends, at the
    /// latest at `latest`, and samples without a callstack for the times that have none.
    pub(super) fn end(&mut self, latest: u64) -> impl Iterator<Item = Sample> {
        self.ended.clear();
        let now = self.now.max(latest);
        let mut samples: Vec<Sample> = self.samples.drain().map(|(_, sample)| sample).collect();
        for sample in &mut samples {
            sample.weight = now.saturating_sub(sample.time);
        }
        samples.extend(self.unsampled.drain(..).map(|thread| Sample {
            time: thread.last,
            cpu: 0,
            task: Some(Task {
                pid: thread.pid,
                tid: thread.tid,
                mode: CpuMode::Kernel,
            }),
            count: 0,
            followers: Box::default(),
            weight: thread.nanoseconds,
            content: Content::Unsampled,
        }));
        samples.sort_by_key(|sample| sample.time);
        samples.into_iter()
    }
}

/// Sets the weight of a sample to the time of the absences that it stands for.
fn weigh(sample: &mut Sample, resumed: &Resumed) {
    sample.weight = resumed.duration.saturating_add(resumed.before);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        Sample {
            time: 100,
            cpu: 0,
            task: Some(Task {
                pid: 1,
                tid: 1,
                mode: CpuMode::Kernel,
            }),
            count: 0,
            followers: Box::default(),
            weight: 0,
            content: Content::Counters,
        }
    }

    #[test]
    fn a_samples_weight_includes_the_time_of_unsampled_absences() {
        // In either order.
        for before in [0, 40] {
            let resumed = Resumed {
                tid: 1,
                since: 100,
                duration: 10,
                before,
            };
            let mut samples = OffCpuSamples::default();
            assert!(samples.left(sample()).is_none());
            let weighed = samples.resumed(&resumed).map(|sample| sample.weight);
            assert_eq!(weighed, Some(10 + before));
            assert!(samples.resumed(&resumed).is_none());
            let weighed = samples.left(sample()).map(|sample| sample.weight);
            assert_eq!(weighed, Some(10 + before));
        }
    }

    #[test]
    fn the_end_has_all_times() {
        let mut samples = OffCpuSamples::default();
        assert!(samples.left(sample()).is_none());
        let thread = Unsampled {
            pid: 1,
            tid: 2,
            last: 120,
            nanoseconds: 7,
        };
        samples.unsampled(vec![thread], 150);
        let ends: Vec<_> = samples
            .end(130)
            .map(|sample| (sample.task.map(|task| task.tid), sample.weight))
            .collect();
        assert_eq!(ends, [(Some(1), 50), (Some(2), 7)]);
    }
}
