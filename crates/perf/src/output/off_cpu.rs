//! Matching of callstacks of threads that left the CPU with the durations of their absences.

use rustc_hash::FxHashMap;

use super::Sample;
use super::mailbox::Resumed;

/// The largest number of waiting threads. Machines have fewer.
const MAX_WAITING: usize = 1 << 18;

/// Samples without a duration yet, and durations whose sample is still being unwound.
#[derive(Debug, Default)]
pub(super) struct OffCpuSamples {
    /// Samples by thread and time.
    samples: FxHashMap<(u32, u64), Sample>,
    ended: FxHashMap<(u32, u64), Resumed>,
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

    /// Returns the samples of threads that are still off the CPU when the recording ends.
    pub(super) fn end(&mut self, now: u64) -> impl Iterator<Item = Sample> {
        self.ended.clear();
        let mut samples: Vec<Sample> = self.samples.drain().map(|(_, sample)| sample).collect();
        samples.sort_by_key(|sample| sample.time);
        samples.into_iter().map(move |mut sample| {
            sample.weight = now.saturating_sub(sample.time);
            sample
        })
    }
}

/// Converts the weight of a sample from a number of absences to their duration.
fn weigh(sample: &mut Sample, resumed: &Resumed) {
    let all = resumed.duration.saturating_mul(sample.weight.max(1));
    sample.weight = all.min(resumed.most.max(resumed.duration));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Content, Task};
    use crate::record::CpuMode;

    fn sample(stands_for: u64) -> Sample {
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
            weight: stands_for,
            content: Content::Counters,
        }
    }

    #[test]
    fn a_samples_weight_includes_the_time_of_unsampled_absences() {
        let resumed = Resumed {
            tid: 1,
            since: 100,
            duration: 10,
            most: 75,
        };
        // In either order.
        for (stands_for, weight) in [(1, 10), (5, 50), (9, 75), (0, 10)] {
            let mut samples = OffCpuSamples::default();
            assert!(samples.left(sample(stands_for)).is_none());
            let weighed = samples.resumed(&resumed).map(|sample| sample.weight);
            assert_eq!(weighed, Some(weight));
            assert!(samples.resumed(&resumed).is_none());
            let weighed = samples.left(sample(stands_for)).map(|sample| sample.weight);
            assert_eq!(weighed, Some(weight));
        }
    }
}
