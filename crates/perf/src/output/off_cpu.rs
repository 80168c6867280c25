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
    durations: FxHashMap<(u32, u64), u64>,
}

impl Absences {
    /// A thread left the CPU; gives the sample back if it is complete.
    pub(super) fn left(&mut self, mut sample: Sample) -> Option<Sample> {
        let key = (sample.task?.tid, sample.time);
        match self.durations.remove(&key) {
            Some(duration) => {
                sample.weight = duration;
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
            sample.weight = resumed.duration;
            return Some(sample);
        }
        if self.durations.len() < MAX_WAITING {
            self.durations.insert(key, resumed.duration);
        }
        None
    }

    /// The recording ends now: what is known of threads that are still away.
    pub(super) fn end(&mut self, now: u64) -> impl Iterator<Item = Sample> {
        self.durations.clear();
        let mut samples: Vec<Sample> = self.samples.drain().map(|(_, sample)| sample).collect();
        samples.sort_by_key(|sample| sample.time);
        samples.into_iter().map(move |mut sample| {
            sample.weight = now.saturating_sub(sample.time);
            sample
        })
    }
}
