//! The samples of a trace, kept in memory to be counted for many selections.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use ferretto_trace::profile::{
    Profile, ProfileReader, Sample, Selection, SessionId, StackCounts, StackId, UnwindError,
};
use ferretto_trace::{Limits, TraceReader};

use crate::read::{Extent, Input, Watched, open_any};

/// The samples of a trace.
pub(crate) struct KeptSamples {
    pub(super) name: String,
    pub(super) profile: Rc<Profile>,
    pub(super) extent: Extent,
    /// The sum of the samples of each thread and callstack.
    sums: Vec<Sample>,
    /// The single samples in the order of their times.
    single: Vec<Single>,
    /// The different amounts of samples: how often, the weight, and those of followers.
    amounts: Vec<u64>,
}

/// A sample. A large trace has millions.
struct Single {
    time: u64,
    /// The index of the sum that it belongs to.
    sum: u32,
    /// The index of its first amount.
    amounts: u32,
}

/// The amounts of a sample that has no followers.
const AMOUNTS: usize = 2;

impl KeptSamples {
    /// Reads the samples of a trace. Returns `None` if they take more than `max` bytes.
    pub(crate) fn read(
        file: &Path,
        max: usize,
        watch: impl FnMut(u64) -> bool + 'static,
    ) -> Result<Option<Self>> {
        let limits = Limits::default();
        let Input {
            name,
            packets,
            extent,
        } = open_any(file, limits)?;
        let mut packets = TraceReader::with_limits(Watched::new(packets, watch), limits);
        let mut reader = ProfileReader::with_limits(limits);
        let mut kept = Collected::default();
        let damage = packets
            .read_all(|packet| {
                if let Some(sample) = reader.add(packet.bytes)
                    && kept.memory() <= max
                {
                    kept.add(sample);
                }
            })
            .with_context(|| format!("cannot read {name}"))?;
        if kept.memory() > max {
            return Ok(None);
        }
        kept.single.sort_by_key(|sample| sample.time);
        let profile = reader.finish();
        let extent = Extent::report(&name, &damage)
            .and_left_out(&name, profile.left_out())
            .and(extent);
        Ok(Some(Self {
            name,
            profile: Rc::new(profile),
            extent,
            sums: kept.sums,
            single: kept.single,
            amounts: kept.amounts,
        }))
    }

    /// Counts the samples of a selection.
    pub(super) fn counts(&self, selection: Selection) -> StackCounts {
        let mut counts = StackCounts::new(selection.clone());
        if selection.from.is_none() && selection.to.is_none() {
            self.sums.iter().for_each(|sum| counts.add(sum));
            return counts;
        }
        let at = |time: Option<u64>| {
            time.map(|time| self.single.partition_point(|sample| sample.time < time))
        };
        let from = at(selection.from).unwrap_or(0);
        let to = at(selection.to).unwrap_or(self.single.len()).max(from);
        let mut sums: HashMap<u32, Sample> = HashMap::new();
        for single in &self.single[from..to] {
            let amounts = &self.amounts[single.amounts as usize..];
            match sums.get_mut(&single.sum) {
                Some(sum) => add(sum, amounts),
                None => {
                    let mut sum = self.sums[single.sum as usize].clone();
                    sum.time = single.time;
                    sum.times = 0;
                    sum.weight = sum.weight.map(|_| 0);
                    sum.followers.fill(0);
                    add(&mut sum, amounts);
                    sums.insert(single.sum, sum);
                }
            }
        }
        sums.values().for_each(|sum| counts.add(sum));
        counts
    }

    /// Returns the bytes of the samples.
    pub(crate) fn memory(&self) -> usize {
        memory(&self.sums, &self.single, &self.amounts)
    }
}

fn memory(sums: &Vec<Sample>, single: &Vec<Single>, amounts: &Vec<u64>) -> usize {
    sums.capacity() * size_of::<Sample>()
        + single.capacity() * size_of::<Single>()
        + amounts.capacity() * size_of::<u64>()
}

/// Adds the amounts of a sample to a sum.
fn add(sum: &mut Sample, amounts: &[u64]) {
    sum.times = sum.times.saturating_add(amounts[0]);
    sum.weight = sum.weight.map(|weight| weight.saturating_add(amounts[1]));
    for (follower, amount) in sum.followers.iter_mut().zip(&amounts[AMOUNTS..]) {
        *follower = follower.saturating_add(*amount);
    }
}

/// The samples while they are read.
#[derive(Default)]
struct Collected {
    indexes: HashMap<Key, u32>,
    sums: Vec<Sample>,
    single: Vec<Single>,
    amounts: Vec<u64>,
    /// The indexes of known amounts: most samples of an event have the same.
    known: HashMap<Box<[u64]>, u32>,
    /// The amounts of the current sample.
    current: Vec<u64>,
}

/// A sample without its time and its amounts.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    session: SessionId,
    machine: u32,
    pid: Option<i32>,
    tid: Option<i32>,
    stack: StackId,
    truncated: Option<UnwindError>,
    has_weight: bool,
    followers: usize,
}

impl Collected {
    /// Adds a sample that has a callstack.
    fn add(&mut self, sample: Sample) {
        let Some(stack) = sample.stack else { return };
        let key = Key {
            session: sample.session,
            machine: sample.machine,
            pid: sample.pid,
            tid: sample.tid,
            stack,
            truncated: sample.truncated,
            has_weight: sample.weight.is_some(),
            followers: sample.followers.len(),
        };
        self.current.clear();
        self.current
            .extend([sample.times, sample.weight.unwrap_or(0)]);
        self.current.extend(&sample.followers);
        let first = match self.known.get(&self.current[..]) {
            Some(first) => *first,
            None => {
                // Their memory is limited far below this.
                let first = u32::try_from(self.amounts.len()).unwrap_or(u32::MAX);
                self.amounts.extend(&self.current);
                self.known.insert(self.current.as_slice().into(), first);
                first
            }
        };
        let next = self.sums.len() as u32;
        let sum = *self.indexes.entry(key).or_insert(next);
        self.single.push(Single {
            time: sample.time,
            sum,
            amounts: first,
        });
        match self.sums.get_mut(sum as usize) {
            Some(sum) => add(sum, &self.current),
            None => self.sums.push(sample),
        }
    }

    fn memory(&self) -> usize {
        let of_index = size_of::<(Key, u32)>() * 2;
        // An entry has its amounts once more.
        let of_known = size_of::<(Box<[u64]>, u32)>() * 2;
        memory(&self.sums, &self.single, &self.amounts)
            + self.indexes.len() * of_index
            + self.known.len() * of_known
            + self.amounts.len() * size_of::<u64>()
    }
}
