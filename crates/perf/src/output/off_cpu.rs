//! Bringing callstacks of threads that left the CPU together with how long they were away.

use rustc_hash::FxHashMap;

use super::Sample;
use super::mailbox::Resumed;

/// The most threads that are waited for. Machines have fewer.
const MAX_WAITING: usize = 1 << 18;

/// Samples whose duration is not known yet, and durations whose sample is still being unwound.
#[derive(Debug, Default)]
pub(super) struct Absences {
    /// By thread and time.
    samples: FxHashMap<(u32, u64), Sample>,
    ended: FxHashMap<(u32, u64), Resumed>,
}

impl Absences {
    /// A thread left the CPU; gives the sample back if it is complete.
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

    /// A thread ran again.
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

    /// Returns the samples of threads that are still off CPU when the recording ends.
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

/// Has a sample, whose weight is the number of stretches that it stands for, stand for the time
/// they took.
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
    fn a_sample_stands_for_the_time_of_those_that_were_left_out() {
        let resumed = Resumed {
            tid: 1,
            since: 100,
            duration: 10,
            most: 75,
        };
        // Whichever is known first.
        for (stands_for, weight) in [(1, 10), (5, 50), (9, 75), (0, 10)] {
            let mut absences = Absences::default();
            assert!(absences.left(sample(stands_for)).is_none());
            let weighed = absences.resumed(&resumed).map(|sample| sample.weight);
            assert_eq!(weighed, Some(weight));
            assert!(absences.resumed(&resumed).is_none());
            let weighed = absences
                .left(sample(stands_for))
                .map(|sample| sample.weight);
            assert_eq!(weighed, Some(weight));
        }
    }
}
