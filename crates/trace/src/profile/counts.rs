//! Counts of samples by thread and callstack.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::limits::{Budget, default_budget, entry_bytes};

use super::{Event, Profile, Sample, SessionId, StackId, UnwindError};

/// The id of a heap of a [`Profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeapId(pub(super) u32);

/// The maximum number of combinations of thread and callstack. Samples of others are left out and
/// counted.
const MAX_KEYS: usize = 1 << 23;

/// The accounted bytes of a combination, including its copy in results.
const KEY_BYTES: usize = 2 * entry_bytes::<(StackKey, Count)>();

/// A selection of samples; by default all but those of idle CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The processes; all if empty.
    pub pids: Vec<i32>,
    /// The names or ids of threads; all if empty.
    pub threads: Vec<String>,
    /// The start time, in nanoseconds of boot time.
    pub from: Option<u64>,
    /// The end time (exclusive), in nanoseconds of boot time.
    pub to: Option<u64>,
    /// The name of the counted event, with or without its modifiers. `None` selects the first event
    /// with samples. Amounts of different events are never added up.
    pub event: Option<String>,
    /// True selects off-CPU samples, false on-CPU samples. `None` selects off-CPU samples only if
    /// the trace has no others.
    pub off_cpu: Option<bool>,
}

impl Selection {
    /// Returns true if it contains a time, in nanoseconds of boot time.
    pub(super) fn has_time(&self, time: u64) -> bool {
        self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time < to)
    }
}

/// The key by which samples are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackKey {
    /// The session of the profiler.
    pub session: SessionId,
    /// The machine.
    pub machine: u32,
    /// The process; 0 if unknown.
    pub pid: i32,
    /// The thread; 0 if unknown.
    pub tid: i32,
    /// The counter: 0 is the event of the session, others are its followers.
    pub counter: u32,
    /// The heap, if the process has several.
    pub heap: Option<HeapId>,
    /// The callstack.
    pub stack: StackId,
    /// The reason why the callstack is incomplete.
    pub truncated: Option<UnwindError>,
}

/// A count of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// The number of samples.
    pub samples: u64,
    /// The sum of the samples' weights, such as nanoseconds.
    pub weight: u64,
}

/// The quantity to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Value {
    /// The number of samples.
    #[default]
    Samples,
    /// The weight of samples.
    Weight,
}

impl Count {
    /// Returns one of the quantities.
    pub fn value(&self, value: Value) -> u64 {
        match value {
            Value::Samples => self.samples,
            Value::Weight => self.weight,
        }
    }

    /// Adds another count.
    pub fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight = self.weight.saturating_add(other.weight);
    }
}

/// The counts of selected samples.
#[derive(Debug)]
pub struct StackCounts {
    budget: Budget,
    selection: Selection,
    counts: HashMap<StackKey, Count>,
    /// The counters of these keys.
    counters: BTreeSet<(SessionId, u32)>,
    /// The times of the first and the last sample, in nanoseconds of boot time.
    times: Option<(u64, u64)>,
    /// The number of samples left out because of limits.
    pub left_out: u64,
    /// The number of samples of idle CPUs.
    pub idle: u64,
}

impl StackCounts {
    /// Creates empty counts.
    pub fn new(selection: Selection) -> Self {
        Self::within(selection, &default_budget())
    }

    pub(crate) fn within(selection: Selection, budget: &Budget) -> Self {
        Self {
            selection,
            budget: budget.clone(),
            counts: HashMap::new(),
            counters: BTreeSet::new(),
            times: None,
            left_out: 0,
            idle: 0,
        }
    }

    /// Adds a sample, if it is selected and has a callstack.
    pub fn add(&mut self, sample: &Sample) {
        let Some(stack) = sample.stack else { return };
        let pid = sample.pid.unwrap_or(0);
        let selection = &self.selection;
        let is_other = !selection.pids.is_empty() && !selection.pids.contains(&pid);
        if is_other || !selection.has_time(sample.time) {
            return;
        }
        if sample.pid == Some(0) && selection.pids.is_empty() {
            self.idle += 1;
            return;
        }
        self.note(sample.time);
        let key = StackKey {
            session: sample.session,
            machine: sample.machine,
            pid,
            tid: sample.tid.unwrap_or(0),
            counter: 0,
            heap: None,
            stack,
            truncated: sample.truncated,
        };
        let count = Count {
            samples: sample.times,
            weight: sample.weight.unwrap_or(0),
        };
        self.add_count(key, count);
        for (follower, weight) in sample.followers.iter().enumerate() {
            let counter = follower as u32 + 1;
            let count = Count {
                samples: sample.times,
                weight: *weight,
            };
            self.add_count(StackKey { counter, ..key }, count);
        }
    }

    /// Adds a row of a heap dump that was written at `time`.
    pub(super) fn add_heap(&mut self, key: StackKey, added: Count, time: u64) {
        self.note(time);
        self.add_count(key, added);
    }

    fn add_count(&mut self, key: StackKey, added: Count) {
        let is_full = self.counts.len() >= MAX_KEYS;
        match self.counts.entry(key) {
            Entry::Occupied(known) => known.into_mut().add(added),
            Entry::Vacant(_) if is_full || !self.budget.take(KEY_BYTES) => self.left_out += 1,
            Entry::Vacant(new) => {
                new.insert(added);
                self.counters.insert((key.session, key.counter));
            }
        }
    }

    fn note(&mut self, time: u64) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }

    /// Returns the time range from the start of the selection, or else the first sample, to the
    /// last sample, in nanoseconds of boot time.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let (first, last) = self.times?;
        let begin = self.selection.from.unwrap_or(first);
        Some((begin, last.max(begin)))
    }

    /// Selects off-CPU samples, on-CPU samples, or the default.
    pub(crate) fn set_off_cpu(&mut self, off_cpu: Option<bool>) {
        self.selection.off_cpu = off_cpu;
    }

    /// Selects an event, or the first one with samples.
    pub(crate) fn set_event(&mut self, event: Option<String>) {
        self.selection.event = event;
    }

    /// Returns the selected callstacks, in no particular order.
    pub fn iter<'a>(
        &'a self,
        profile: &'a Profile,
    ) -> impl Iterator<Item = (&'a StackKey, Count)> + 'a {
        let chosen = self.chosen(profile);
        self.counts
            .iter()
            .filter(move |(key, _)| chosen.contains(&(key.session, key.counter)))
            .filter(|(key, _)| self.has_thread(profile, key))
            .map(|(key, count)| (key, *count))
    }

    /// Returns the ids and names of the threads with samples that only the selection of threads
    /// excludes, those with most samples first.
    pub fn other_threads<'a>(&'a self, profile: &'a Profile) -> Vec<(i32, Option<&'a str>)> {
        let off_cpu = self.is_off_cpu(profile);
        let mut samples: BTreeMap<(u32, i32), u64> = BTreeMap::new();
        for (key, count) in &self.counts {
            if is_off_cpu(profile, key.session) == off_cpu && !self.has_thread(profile, key) {
                *samples.entry((key.machine, key.tid)).or_default() += count.samples;
            }
        }
        let mut threads: Vec<_> = samples.into_iter().collect();
        threads.sort_by_key(|&(_, samples)| Reverse(samples));
        let name = |machine, tid| profile.thread_name(machine, tid);
        let threads = threads.into_iter();
        threads
            .map(|((machine, tid), _)| (tid, name(machine, tid)))
            .collect()
    }

    /// Returns true if the counts are of off-CPU samples.
    pub fn is_off_cpu(&self, profile: &Profile) -> bool {
        self.selection.off_cpu.unwrap_or_else(|| {
            let mut counters = self.counters.iter();
            !self.counters.is_empty() && counters.all(|(session, _)| is_off_cpu(profile, *session))
        })
    }

    /// Returns the names of the events with samples, the default one first. These are either of
    /// off-CPU samples or of on-CPU samples.
    pub fn events(&self, profile: &Profile) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for counter in self.of_kind(profile) {
            let name = event(profile, counter).map_or("", |event| event.name.as_str());
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// Returns the event that is counted; `None` without samples, or for the heap.
    pub fn event<'a>(&self, profile: &'a Profile) -> Option<&'a Event> {
        event(profile, *self.chosen(profile).first()?)
    }

    /// Returns the quantity that shows the selected samples best: time for those off the CPU,
    /// weights if each sample has its own, and the number of samples otherwise.
    pub fn value(&self, profile: &Profile) -> Value {
        let chosen = self.chosen(profile);
        let has_weights = |(session, counter): &(SessionId, u32)| {
            let session = profile.session(*session);
            *counter > 0 || session.is_some_and(super::Session::is_weighted)
        };
        let is_weighted = !chosen.is_empty() && chosen.iter().all(has_weights);
        if is_weighted || self.is_off_cpu(profile) {
            Value::Weight
        } else {
            Value::Samples
        }
    }

    /// Returns the counters of the selected event. Several sequences may count the same one.
    pub(super) fn chosen(&self, profile: &Profile) -> BTreeSet<(SessionId, u32)> {
        let events = self.events(profile);
        let wanted = match self.selection.event.as_deref() {
            None => events.first(),
            Some(wanted) => {
                let is_alike = |name: &&String| without_modifiers(name) == wanted;
                let exact = events.iter().find(|name| *name == wanted);
                exact.or_else(|| events.iter().find(is_alike))
            }
        };
        let is_wanted = |counter: &(SessionId, u32)| {
            let name = event(profile, *counter).map_or("", |event| event.name.as_str());
            wanted.is_some_and(|wanted| wanted == name)
        };
        self.of_kind(profile)
            .into_iter()
            .filter(is_wanted)
            .collect()
    }

    /// Returns the counters of off-CPU samples, or those of others, in the order of sequences:
    /// writers number them in the order of their events.
    fn of_kind(&self, profile: &Profile) -> Vec<(SessionId, u32)> {
        let off_cpu = self.is_off_cpu(profile);
        let counters = self.counters.iter().copied();
        let is_of_kind = |(session, _): &(SessionId, u32)| is_off_cpu(profile, *session) == off_cpu;
        let mut counters: Vec<_> = counters.filter(is_of_kind).collect();
        counters.sort_by_key(|(session, counter)| {
            let sequence = profile.session(*session).map(|session| session.sequence);
            (sequence, *session, *counter)
        });
        counters
    }

    fn has_thread(&self, profile: &Profile, key: &StackKey) -> bool {
        let wanted = &self.selection.threads;
        let name = || profile.thread_name(key.machine, key.tid);
        wanted.is_empty()
            || wanted.iter().any(|wanted| {
                wanted.parse() == Ok(key.tid) || name().is_some_and(|name| name == wanted)
            })
    }
}

fn event(profile: &Profile, (session, counter): (SessionId, u32)) -> Option<&Event> {
    profile.session(session)?.counted(counter)
}

/// Returns the name of an event without modifiers, as `cycles` of `cycles:u`.
fn without_modifiers(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((event, modifiers))
            if modifiers
                .bytes()
                .all(|byte| b"ukhGHIpPSDWeb".contains(&byte)) =>
        {
            event
        }
        _ => name,
    }
}

fn is_off_cpu(profile: &Profile, session: SessionId) -> bool {
    let session = profile.session(session);
    session.is_some_and(super::Session::is_off_cpu)
}
