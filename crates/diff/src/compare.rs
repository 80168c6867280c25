//! The comparison of two sets of recordings.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::feature::{FAULTS, Feature, Kind, PAGE_FAULTS, RAN, Unit};
use crate::neighbours::slowdown;
use crate::pair::Pair;
use crate::recording::{Recording, Scope};
use crate::remarks::{remarks, setup};
use crate::specific::{is_part, most_specific, ranked};
use crate::statistics::{false_discovery, mean};
use crate::values::Value;
use crate::variation::{Busyness, least_count};

/// The limits above which a difference is a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The least change of a time, as a share of the compared time.
    pub share: f64,
    /// The least relative change.
    pub relative: f64,
    /// The highest rate of false discoveries.
    pub rate: f64,
    /// The highest rate of false discoveries among possible changes.
    pub possible: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            share: 0.02,
            relative: 0.05,
            rate: 0.003,
            possible: 0.05,
        }
    }
}

/// A comparison of two sets of recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The causes that changed, the largest first.
    pub changes: Vec<Change>,
    /// The durations that changed, the largest first.
    pub effects: Vec<Change>,
    /// Causes and durations that may have changed, the largest first: more recordings would tell.
    pub possible: Vec<Change>,
    /// Facts that differ: their name, and their values before and after.
    pub setup: Vec<(String, String, String)>,
    /// The number of features that were tested.
    pub tested: usize,
    /// The thing whose times are compared.
    pub scope: Scope,
    /// The numbers of recordings.
    pub recordings: (usize, usize),
    /// The means of the compared time in nanoseconds.
    pub durations: (f64, f64),
    /// Sentences about what the comparison cannot tell.
    pub remarks: Vec<String>,
}

/// The standard deviation in nanoseconds by which times of a command vary between recordings of the
/// same, however short they are: a thread is woken later, a page is not in memory. It is assumed if
/// there is one recording each.
const NOISE: f64 = 3e5;

/// The number of recordings from which on they tell how much recordings of the same differ.
const ENOUGH: usize = 6;
/// The least changes in nanoseconds of times on CPUs, and of others, that fewer recordings can
/// tell: a thread that loses its CPU once waits for some time slices, and finds its caches cold.
const LEAST_ON_CPU: f64 = 5e6;
const LEAST_WAIT: f64 = 1e7;
/// The share of the time that a thread has to run for its waits to matter: one that does not waits
/// for work.
const IDLE: f64 = 1e-3;
/// The busyness of the machine from which on they tell nothing about waits.
const BUSY: f64 = 0.2;

impl Comparison {
    /// Compares recordings.
    pub fn new(before: &[Recording], after: &[Recording], limits: &Limits) -> Self {
        let all = || before.iter().chain(after);
        let scope = if all().all(|recording| recording.scope == Scope::Command) {
            Scope::Command
        } else {
            Scope::Period
        };
        let durations = |of: &[Recording]| {
            mean(
                &of.iter()
                    .map(|recording| recording.duration)
                    .collect::<Vec<_>>(),
            )
        };
        let durations = (durations(before), durations(after));
        let busyness = all().map(|recording| recording.busyness);
        let busyness = Busyness {
            least: busyness.clone().fold(1.0, f64::min),
            most: busyness.fold(0.0, f64::max),
        };
        let test = Test {
            before,
            after,
            scope,
            scale: match scope {
                Scope::Command => {
                    let own: Vec<f64> = all().map(|recording| recording.own_duration).collect();
                    mean(&own)
                }
                Scope::Period => 1e9,
            },
            limits,
            busyness,
        };
        let features: BTreeSet<&Feature> = all()
            .flat_map(|recording| recording.values.iter().map(|(feature, _)| feature))
            .collect();
        let mut tested: Vec<Change> = features
            .iter()
            .filter_map(|feature| test.change(feature))
            .collect();
        let p: Vec<f64> = tested.iter().map(|change| change.p).collect();
        for (change, q) in tested.iter_mut().zip(false_discovery(&p)) {
            change.q = q;
        }
        let count = tested.len();
        tested.retain(|change| change.q <= limits.possible && test.is_relevant(change));
        tested.retain(|change| !test.has_other_name(change, &features));
        let (changed, possible): (Vec<_>, Vec<_>) = tested
            .into_iter()
            .partition(|change| change.q <= limits.rate && test.is_supported(change, &features));
        let possible = possible
            .into_iter()
            .filter(|change| !changed.iter().any(|known| is_part(change, known)))
            .collect();
        let (effects, causes) = changed
            .into_iter()
            .partition(|change| change.feature.kind.is_effect());
        let most_specific = |changes| {
            let mut changes = most_specific(changes);
            for change in &mut changes {
                test.name_part(change, &features);
            }
            ranked(changes)
        };
        Self {
            changes: most_specific(causes),
            effects: ranked(effects),
            possible: most_specific(possible),
            setup: setup(before, after),
            tested: count,
            scope,
            recordings: (before.len(), after.len()),
            durations,
            remarks: remarks(before, after, busyness),
        }
    }

    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.effects.is_empty()
    }
}

struct Test<'a> {
    before: &'a [Recording],
    after: &'a [Recording],
    scope: Scope,
    /// The compared time that the sizes of times are shares of.
    scale: f64,
    limits: &'a Limits,
    busyness: Busyness,
}

impl Test<'_> {
    /// Returns the degrees of freedom of the variation between recordings.
    fn degrees(&self) -> usize {
        (self.before.len() + self.after.len()).saturating_sub(2)
    }

    /// Returns the difference of the mean values of a feature.
    fn difference(&self, feature: &Feature) -> f64 {
        let mean_of = |recordings: &[Recording]| {
            let values = recordings.iter().map(|it| self.value(it, feature));
            mean(&values.collect::<Vec<_>>())
        };
        mean_of(self.after) - mean_of(self.before)
    }

    /// Returns true if the work of a thread changed, and not only how long the command waited for
    /// it. It waits less for a thread that worked while it had no CPU itself.
    fn is_work(&self, change: &Change) -> bool {
        let feature = &change.feature;
        let process = |kind| Feature::of_process(kind, &feature.process);
        let (other, least) = match (feature.kind, feature.name.as_str()) {
            (Kind::Path, RAN) if !change.via.is_empty() => (
                process(Kind::Cpu).thread(&feature.thread),
                change.difference() / 2.0,
            ),
            _ if feature.is_of_page_tables() => (
                process(Kind::Calls).detail(&feature.detail),
                least_count(Kind::Calls).copysign(change.difference()),
            ),
            _ if feature.is_clearing()
                || (feature.kind, feature.name.as_str()) == (Kind::Path, FAULTS) =>
            {
                // The kernel counts those of the command together with its children's.
                let is_counted = |of: &Feature| of.kind == Kind::Faults && of.name == PAGE_FAULTS;
                let known = self.before[0].values.iter().map(|(feature, _)| feature);
                let Some(faults) = known.filter(|of| is_counted(of)).min().cloned() else {
                    return true;
                };
                let mut all = self.before.iter().chain(self.after);
                if !all.all(|recording| recording.values.get(&faults).is_some()) {
                    return true;
                }
                let least = least_count(Kind::Faults).copysign(change.difference());
                (faults, least)
            }
            _ => return true,
        };
        let difference = self.difference(&other);
        difference * least > 0.0 && difference.abs() >= least.abs()
    }

    /// Returns the difference of the times in which as many calls of a process as before copied or
    /// freed page tables.
    fn in_page_tables(&self, of: &Feature, features: &BTreeSet<&Feature>) -> f64 {
        let calls = features.iter().filter(|feature| {
            let is_own = (feature.kind, &feature.process) == (Kind::CallTime, &of.process);
            is_own && feature.is_of_page_tables()
        });
        let as_many = calls.filter(|calls| {
            let count = Feature::of_process(Kind::Calls, &calls.process).detail(&calls.detail);
            self.difference(&count).abs() < least_count(Kind::Calls)
        });
        as_many.map(|calls| self.difference(calls).abs()).sum()
    }

    /// Names the part of a change that changed the most, if that is not known.
    fn name_part(&self, change: &mut Change, features: &BTreeSet<&Feature>) {
        /// The least share of the change.
        const LEAST: f64 = 0.25;
        if !change.mostly.is_empty() || !change.feature.detail.is_empty() {
            return;
        }
        // Parts follow the whole in the order of features.
        let of = (change.feature.kind, &change.feature.process);
        let parts = features.range::<&Feature, _>(&change.feature..);
        let parts = parts.take_while(|feature| (feature.kind, &feature.process) == of);
        let parts = parts.filter(|feature| feature.parent().as_ref() == Some(&change.feature));
        let most = parts
            .map(|feature| (self.difference(feature) / change.difference(), feature))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(share, _)| *share >= LEAST);
        if let Some((_, part)) = most {
            change.mostly = match part.detail.as_str() {
                "" => part.thread.clone(),
                detail => detail.to_owned(),
            };
        }
    }

    /// Returns the value of a feature, 0 if the recording does not have it. Totals are per second
    /// unless a command is compared.
    fn value(&self, recording: &Recording, feature: &Feature) -> f64 {
        let known = recording.values.get(feature);
        let value = known.map_or(0.0, |value| value.value);
        match self.scope {
            Scope::Period if feature.kind.is_total() => value * 1e9 / recording.duration,
            _ => value,
        }
    }

    /// Tests a feature. `None` if its values are too small to matter.
    fn change(&self, feature: &Feature) -> Option<Change> {
        if self.scope == Scope::Period && matches!(feature.kind, Kind::Duration | Kind::Path) {
            return None;
        }
        if !self
            .before
            .iter()
            .chain(self.after)
            .all(|it| it.tells(feature))
        {
            return None;
        }
        if feature.kind == Kind::Wait && self.is_idle(feature) {
            return None;
        }
        let is_total = feature.kind.is_total();
        let value = |recording: &Recording| self.value(recording, feature);
        // Functions on the critical path are known from the samples of their time on CPUs.
        let is_function = |same: &Feature| same.kind == Kind::Cpu && !same.detail.is_empty();
        let sampled = feature.same().into_iter().find(is_function);
        let sampled = sampled.as_ref().unwrap_or(feature);
        let all = || self.before.iter().chain(self.after);
        let sample_times = all().filter_map(|recording| recording.values.get(sampled));
        let sample_times: Vec<f64> = sample_times.map(|value| value.sample_time).collect();
        // One recording with few samples makes nothing of the others uncertain.
        let sample_time = match self.degrees() {
            0 => sample_times.iter().copied().fold(0.0, f64::max),
            _ => mean(&sample_times),
        };
        let is_single = self.before.len() == 1 && self.after.len() == 1;
        let has_noise = is_single && self.scope == Scope::Command && is_total;
        let noise = match feature.kind.unit() {
            Unit::Time if has_noise => NOISE,
            _ => 0.0,
        };
        let pair = Pair {
            sample_time,
            noise,
            feature,
            before: self.before.iter().map(value).collect(),
            after: self.after.iter().map(value).collect(),
            known: [self.before, self.after]
                .into_iter()
                .flatten()
                .filter_map(|recording| recording.values.get(feature))
                .collect(),
        };
        // Durations of slices that only one side has are not a change of durations, and memory that
        // was not sampled did not shrink.
        let count = self.before.len() + self.after.len();
        let is_everywhere = pair.known.len() == count;
        if !feature.kind.is_zero_if_absent() && !is_everywhere {
            return None;
        }
        let (before, after) = (mean(&pair.before), mean(&pair.after));
        let most = before.max(after);
        let total = pair
            .known
            .iter()
            .map(|value| value.total)
            .fold(0.0, f64::max);
        let total = match self.scope {
            Scope::Period => total * 1e9 / self.before[0].duration.max(1.0),
            Scope::Command => total,
        };
        // The value below which a difference does not matter.
        let least = match (feature.kind, feature.kind.unit()) {
            (Kind::Median | Kind::Tail, _) if total < self.scale * self.limits.share => {
                return None;
            }
            (Kind::Median | Kind::Tail, _) => most * 0.02,
            (_, Unit::Time) => {
                let share = self.scale * self.limits.share / 2.0;
                // Several recordings tell how much the numbers of samples vary.
                let samples = if self.degrees() >= 4 { 1.0 } else { 5.0 };
                share.max(samples * sample_time).max(2.0 * noise)
            }
            (kind, Unit::Count) => least_count(kind),
            (_, Unit::Bytes) => 1024.0 * 1024.0,
            (_, Unit::Value) => most.abs() * 0.02,
        };
        if most < least * 2.0 && is_total {
            return None;
        }
        let difference = (after - before).abs();
        let relative = if most > 0.0 { difference / most } else { 0.0 };
        let size = match (feature.kind, feature.kind.unit()) {
            (Kind::Median | Kind::Tail, _) => relative * (total / self.scale),
            // The critical path tells why a command is slower.
            (Kind::Cpu | Kind::CallTime | Kind::RequestTime, _) if self.scope == Scope::Command => {
                difference / self.scale * 0.5
            }
            (_, Unit::Time) => difference / self.scale,
            // All that runs on CPUs depends on it.
            (Kind::Frequency, _) => relative * 0.5,
            (Kind::Traffic | Kind::RequestBytes, _) => relative * 0.02,
            (Kind::Threads, _) => relative * 0.01,
            (_, Unit::Bytes) => relative * 0.3,
            (_, Unit::Count | Unit::Value) => relative * 0.02,
        };
        let via = |known: &&&Value| !known.via.is_empty();
        Some(Change {
            p: pair.p(least, self.busyness),
            q: 1.0,
            feature: feature.clone(),
            before,
            after,
            size,
            mostly: String::new(),
            via: pair
                .known
                .iter()
                .rev()
                .find(via)
                .map_or(String::new(), |value| value.via.clone()),
        })
    }

    /// Returns true if the thread of a wait hardly ran in any recording.
    fn is_idle(&self, wait: &Feature) -> bool {
        let thread = Feature::of_process(Kind::Cpu, &wait.process).thread(&wait.thread);
        let mut all = self.before.iter().chain(self.after);
        all.all(|recording| self.value(recording, &thread) < self.scale * IDLE)
    }

    /// Returns true if a feature that only one side has is there in the other one, too, but under
    /// another name. A process or thread that ends soon has the name of its program, of the
    /// interpreter of that, or of its parent: it depends on when the recorder saw it.
    fn has_other_name(&self, change: &Change, features: &BTreeSet<&Feature>) -> bool {
        let of = &change.feature;
        let (least, most) = (
            change.before.min(change.after),
            change.before.max(change.after),
        );
        if !of.kind.is_zero_if_absent() || of.process.is_empty() || least > most * 0.1 {
            return false;
        }
        let is_alike = |feature: &Feature| {
            feature.kind == of.kind && feature.name == of.name && feature.detail == of.detail
        };
        let total = |has_name: &dyn Fn(&Feature) -> bool| {
            let alike = features.iter().filter(|feature| is_alike(feature));
            let alike: Vec<&&Feature> = alike.filter(|feature| has_name(feature)).collect();
            let mean = |recordings: &[Recording]| {
                let sum = |recording| alike.iter().map(|it| self.value(recording, it)).sum();
                mean(&recordings.iter().map(sum).collect::<Vec<_>>())
            };
            (mean(self.after) - mean(self.before)).abs()
        };
        let thread = match of.kind {
            // The first thread of a process has its name.
            Kind::Cpu if of.thread.is_empty() => &of.process,
            _ => &of.thread,
        };
        let unchanged = change.difference().abs() / 2.0;
        // Threads of this name in all processes, and all threads of the process.
        total(&|feature| feature.thread == *thread) < unchanged
            || !of.thread.is_empty()
                && total(&|feature| feature.process == of.process && !feature.thread.is_empty())
                    < unchanged
    }

    /// Returns true if system calls of a process did not change if those of all processes are added
    /// up. Of processes that end soon, some have the name of their program and others that of their
    /// parent.
    fn has_moved(&self, change: &Change, features: &BTreeSet<&Feature>) -> bool {
        let of = &change.feature;
        if !matches!(of.kind, Kind::Calls | Kind::CallTime) {
            return false;
        }
        let alike = features.iter().filter(|feature| {
            (feature.kind, &feature.name, &feature.detail) == (of.kind, &of.name, &of.detail)
        });
        let all: f64 = alike.map(|feature| self.difference(feature)).sum();
        all * change.difference() < change.difference().powi(2) / 2.0
    }

    /// Returns true if the recordings can tell a change of this size from chance. Few of them do
    /// not tell how much recordings of the same differ, so that only large changes are certain.
    fn is_supported(&self, change: &Change, features: &BTreeSet<&Feature>) -> bool {
        let count = self.before.len() + self.after.len();
        if count >= ENOUGH {
            return true;
        }
        // Lost events look like work that was not done.
        let mut all = self.before.iter().chain(self.after);
        if all.any(Recording::has_losses) {
            return false;
        }
        let most = change.before.max(change.after);
        let difference = change.difference().abs();
        let relative = difference / most.max(f64::MIN_POSITIVE);
        let feature = &change.feature;
        // Threads may have run in the times in which switches are missing, and may not have run in
        // those that the host took.
        let unknown = |it: &Recording| match self.scope {
            Scope::Period => (it.unknown + it.stolen) * 1e9 / it.duration,
            Scope::Command => it.unknown + it.stolen,
        };
        let unknown = self.before.iter().chain(self.after).map(unknown);
        let unknown = unknown.fold(0.0, f64::max);
        let in_page_tables = if feature.is_on_cpu() {
            self.in_page_tables(feature, features)
        } else {
            0.0
        };
        let is_known = match feature.kind.unit() {
            Unit::Time if in_page_tables > 0.0 => {
                difference > unknown + in_page_tables + LEAST_ON_CPU
            }
            Unit::Time => difference > unknown,
            _ => feature.kind != Kind::Threads || unknown == 0.0,
        };
        if !is_known || !self.is_work(change) || self.has_moved(change, features) {
            return false;
        }
        let share = |least: f64| relative >= least + self.busyness.most;
        // The work of other programs for which the command waits may be chance.
        let mut all = self.before.iter().chain(self.after);
        let is_own = all.any(|recording| recording.processes.contains(&feature.process));
        match (feature.kind, feature.kind.unit()) {
            (_, Unit::Time) if is_own && feature.is_on_cpu() => {
                let all = self.before.iter().chain(self.after);
                let occupied = all.map(|it| it.occupied).fold(0.0, f64::max);
                let others = slowdown(occupied).max(self.busyness.most);
                difference >= LEAST_ON_CPU && relative >= 0.12 + others
            }
            // On a busy machine, waits depend on the others.
            (_, Unit::Time) => {
                difference.max(change.size * self.scale) >= LEAST_WAIT
                    && self.busyness.most < BUSY
                    && share(0.25)
            }
            (Kind::Threads, _) => self.scope == Scope::Command && relative >= 0.2,
            (Kind::Faults, _) => difference >= 1000.0 && relative >= 0.2,
            _ if feature.is_incidental() => difference >= 1000.0 && relative >= 0.2,
            (_, Unit::Count) => difference >= 50.0 && relative >= 0.2,
            (_, Unit::Bytes | Unit::Value) => relative >= 0.25,
        }
    }

    /// Returns true if a change is large enough to matter.
    fn is_relevant(&self, change: &Change) -> bool {
        let most = change.before.max(change.after);
        let difference = change.difference().abs();
        if difference < self.limits.relative * most {
            return false;
        }
        match (change.feature.kind, change.feature.kind.unit()) {
            (Kind::Median | Kind::Tail, _) => true,
            (_, Unit::Time) => difference >= self.scale * self.limits.share,
            (kind, Unit::Count) => difference >= least_count(kind) && difference >= 0.1 * most,
            (_, Unit::Bytes) => difference >= 1024.0 * 1024.0 && difference >= 0.1 * most,
            (_, Unit::Value) => difference >= 0.1 * most,
        }
    }
}
