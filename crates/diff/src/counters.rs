//! Counters of programs, and the growth of the memory of processes.

use std::ops::Range;

use ferretto_tables::Trace;
use rustc_hash::FxHashMap;

use crate::context::{Context, common_name};
use crate::feature::{Feature, Kind};
use crate::values::{Values, WINDOWS};

/// The number of samples from which on a counter is compared.
const MIN_SAMPLES: u32 = 4;

/// The samples of a track.
#[derive(Debug, Default)]
struct Samples {
    count: u32,
    /// The time of the first sample.
    since: i64,
    first: f64,
    highest: f64,
    /// The last sample: time and value.
    last: (i64, f64),
    /// The time of the samples, and the sums of the values and of their squares over it.
    time: f64,
    sum: f64,
    squares: f64,
    /// The sum of the squares of the differences between one sample and the next.
    steps: f64,
}

impl Samples {
    fn add(&mut self, time: i64, value: f64) {
        if self.count == 0 {
            (self.since, self.first, self.highest) = (time, value, value);
        } else {
            self.hold_until(time);
            self.steps += (value - self.last.1).powi(2);
        }
        self.count += 1;
        self.highest = self.highest.max(value);
        self.last = (time, value);
    }

    /// Holds the last value until this time.
    fn hold_until(&mut self, time: i64) {
        let (since, value) = self.last;
        let length = time.saturating_sub(since).max(0) as f64;
        self.time += length;
        self.sum += value * length;
        self.squares += value * value * length;
    }

    /// Adds samples that follow these.
    fn follow(&mut self, next: &Self) {
        if self.count > 0 {
            self.hold_until(next.since);
        }
        self.count += next.count;
        self.time += next.time;
        self.sum += next.sum;
        self.squares += next.squares;
    }

    /// Returns the relative standard error of a growth.
    fn growth_error(&self, growth: f64) -> f64 {
        /// The growth that does not matter.
        const LEAST: f64 = 1024.0 * 1024.0;
        let count = f64::from(self.count);
        // Between two samples memory can be higher: few of them tell the highest badly, and so do
        // those of a program that frees and allocates all the time. It may have been higher by as
        // much as one differs from the next.
        let step = (self.steps / (count - 1.0).max(1.0)).sqrt();
        (0.3 / count.sqrt()).hypot(step / growth.max(LEAST))
    }

    /// Returns the mean, and its relative standard error. `None` if it is not positive.
    fn mean(&self) -> Option<(f64, f64)> {
        let mean = self.sum / self.time;
        let variance = (self.squares / self.time - mean * mean).max(0.0);
        // Neighbouring samples are alike: no more of them count than there are windows.
        let count = f64::from(self.count.min(WINDOWS as u32));
        (mean.is_finite() && mean > 0.0).then(|| (mean, variance.sqrt() / mean / count.sqrt()))
    }
}

/// Reads the counters.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    let tables = context.trace.tables();
    let counters = &tables.counter;
    let features: Vec<Option<Feature>> = (0..tables.track.len())
        .map(|track| feature(context, track))
        .collect();
    let mut samples: FxHashMap<u32, Samples> = FxHashMap::default();
    // By track of a frequency: the last sample before the compared time.
    let mut before: FxHashMap<u32, f64> = FxHashMap::default();
    for row in 0..counters.len() {
        let track = counters.track_id().get(row);
        let time = counters.ts().get(row);
        let value = counters.value().get(row);
        let Some(Some(feature)) = features.get(track as usize) else {
            continue;
        };
        if feature.kind == Kind::Frequency && value.is_finite() && time < context.range.start {
            before.insert(track, value);
        } else if value.is_finite() && context.range.contains(&time) {
            samples.entry(track).or_default().add(time, value);
        }
    }
    frequency(context, &features, &before, &mut samples, values);
    let mut samples: Vec<_> = samples.into_iter().collect();
    samples.sort_by_key(|(track, _)| *track);
    for (track, mut samples) in samples {
        let Some(feature) = features[track as usize].clone() else {
            continue;
        };
        if samples.count < MIN_SAMPLES {
            continue;
        }
        samples.hold_until(context.range.end);
        if feature.kind == Kind::Growth {
            let growth = samples.highest - samples.first;
            values.add_with_error(feature, growth, samples.growth_error(growth));
        } else if let Some((mean, error)) = samples.mean() {
            values.add_with_error(feature, mean, error);
        }
    }
}

/// Adds the mean frequency of the CPUs, and takes their samples. A frequency is recorded when it
/// changes or seldom, so that the last one before the compared time counts, too.
fn frequency(
    context: &Context<'_>,
    features: &[Option<Feature>],
    before: &FxHashMap<u32, f64>,
    samples: &mut FxHashMap<u32, Samples>,
    values: &mut Values,
) {
    let mut means = Vec::new();
    for (track, feature) in features.iter().enumerate() {
        let Some(feature) = feature.as_ref().filter(|it| it.kind == Kind::Frequency) else {
            continue;
        };
        let track = track as u32;
        let within = samples.remove(&track);
        let mut all = Samples::default();
        if let Some(value) = before.get(&track) {
            all.add(context.range.start, *value);
        }
        match within {
            Some(mut within) => {
                within.hold_until(context.range.end);
                all.follow(&within);
            }
            None => all.hold_until(context.range.end),
        }
        means.extend(all.mean().map(|(mean, _)| (feature.clone(), mean)));
    }
    let count = means.len() as f64;
    for (feature, mean) in means {
        values.add(feature, mean / count);
    }
}

/// Returns the time of a range in which a virtual machine's host had its CPUs, at most, of all
/// CPUs.
pub(crate) fn stolen(trace: &Trace, range: &Range<i64>) -> f64 {
    let (tables, strings) = (trace.tables(), trace.strings());
    let (tracks, counters) = (&tables.track, &tables.counter);
    let Some(name) = strings.find("cpu.times.steal_ns") else {
        return 0.0;
    };
    // By track: the last value before the range, the first one after it or the last of all, and
    // true for the former.
    let mut ends: FxHashMap<u32, (f64, f64, bool)> = FxHashMap::default();
    for row in 0..counters.len() {
        let track = counters.track_id().get(row);
        if track >= tracks.len() || tracks.name().get(track) != name {
            continue;
        }
        let (time, value) = (counters.ts().get(row), counters.value().get(row));
        let (before, after, is_after) = ends.entry(track).or_insert((value, value, false));
        if time <= range.start {
            *before = value;
        }
        if !*is_after {
            (*after, *is_after) = (value, time >= range.end);
        }
    }
    let times = ends.into_values().map(|(before, after, _)| after - before);
    times.filter(|time| *time > 0.0).sum()
}

/// Returns the feature of a track of counters. `None` if it is not compared: most counters of the
/// machine tell of all programs.
fn feature(context: &Context<'_>, track: u32) -> Option<Feature> {
    let (tables, strings) = (context.trace.tables(), context.trace.strings());
    let tracks = &tables.track;
    let type_ = strings.text(tracks.type_().get(track));
    let name = strings.text(tracks.name().get(track));
    let kind = match type_ {
        "process_memory" if name == "mem.rss" => Kind::Growth,
        "cpu_frequency" if name == "cpufreq" => Kind::Frequency,
        "atrace_counter" => Kind::Counter,
        _ if type_.ends_with("counter_track_event") => Kind::Counter,
        _ => return None,
    };
    let name = match kind {
        Kind::Growth => "memory".to_owned(),
        Kind::Frequency => "frequency of the CPUs in kHz".to_owned(),
        _ => common_name(name),
    };
    let feature = match (tracks.utid().get(track), tracks.upid().get(track)) {
        (Some(thread), _) if context.has_thread(thread) => {
            Feature::of_process(kind, &context.process_of(thread))
                .thread(&context.thread_name(thread))
        }
        (None, Some(process)) if context.has_process(process) => {
            Feature::of_process(kind, &context.process_name(process))
        }
        (None, None) => Feature::of_process(kind, ""),
        _ => return None,
    };
    Some(feature.name(&name))
}
