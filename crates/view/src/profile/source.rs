//! The profiles of a trace.

use ferretto_tables::schema::ArgValue;
use ferretto_tables::{StringId, Trace};
use rustc_hash::FxHashMap;

/// A profile of a trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) measure: Measure,
    /// True if its samples count by their weights.
    pub(crate) is_weighted: bool,
}

/// The measure of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Samples of running threads: `profiler_session.id`.
    Samples(u32),
    /// Waiting times: `profiler_session.id`.
    OffCpu(u32),
    /// Allocations of a heap.
    Heap { heap: StringId, of: Allocations },
}

/// The measure of allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allocations {
    /// Bytes not freed.
    Kept,
    /// All bytes, including freed ones.
    All,
    /// Allocations not freed.
    KeptCount,
    /// All allocations, including freed ones.
    AllCount,
}

impl Allocations {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Kept, "memory in use", "bytes"),
        (Self::All, "memory allocated", "bytes"),
        (Self::KeptCount, "allocations in use", "allocations"),
        (Self::AllCount, "allocations", "allocations"),
    ];

    pub(crate) fn weight(self, count: i64, size: i64) -> f64 {
        match self {
            Self::Kept => size as f64,
            Self::All => size.max(0) as f64,
            Self::KeptCount => count as f64,
            Self::AllCount => count.max(0) as f64,
        }
    }
}

impl Measure {
    /// Returns the name of the kind in the protocol.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Samples(_) => "cpu",
            Self::OffCpu(_) => "offcpu",
            Self::Heap { .. } => "heap",
        }
    }
}

/// The profiles of a trace, and the weights of its samples.
#[derive(Debug)]
pub(crate) struct Profiles {
    all: Vec<Profile>,
    /// The weight of each sample; empty if all weights are equal.
    weights: Vec<f64>,
}

impl Profiles {
    pub(crate) fn new(trace: &Trace) -> Self {
        let all = sources(trace);
        Self {
            weights: sample_weights(trace, &all),
            all,
        }
    }

    /// Returns all profiles.
    pub(crate) fn all(&self) -> &[Profile] {
        &self.all
    }

    /// Returns the weight of a sample; `None` if all weights are equal.
    pub(crate) fn weight(&self, sample: u32) -> Option<f64> {
        self.weights.get(sample as usize).copied()
    }
}

/// Returns the profiles of a trace.
fn sources(trace: &Trace) -> Vec<Profile> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let mut profiles = Vec::new();
    let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
    let samples = &tables.profiler_sample;
    for row in 0..samples.len() {
        let session = samples.session_id().get(row).unwrap_or(u32::MAX);
        // The first sample with counters determines the name and the unit of its session.
        let known = seen.entry(session).or_insert(row);
        let has_counters = |row: u32| samples.counter_set_id().get(row).is_some();
        if !has_counters(*known) && has_counters(row) {
            *known = row;
        }
    }
    let mut sessions: Vec<_> = seen.into_iter().collect();
    sessions.sort_unstable();
    for (session, row) in sessions {
        let counter = timebase(trace, row);
        let name = counter.map_or("", |counter| {
            let track = tables.counter.track_id().get(counter);
            strings.text(tables.track.name().get(track))
        });
        let is_off_cpu = name.contains("off-cpu") || name.ends_with("sched_switch");
        let source = strings.text(samples.source().get(row));
        let shown = if name.is_empty() { source } else { name };
        let is_weighted = counter.is_some_and(|counter| {
            let track = tables.counter.track_id().get(counter);
            let type_ = strings.text(tables.track.type_().get(track));
            // Others count for a CPU or several threads.
            let args = tables.track.source_arg_set_id().get(track);
            let is_timebase = args.is_some_and(|set| is_timebase(trace, set));
            type_ == "stack_sample_session_counter" && is_timebase
        });
        let (unit, measure) = match (is_off_cpu, is_weighted) {
            (true, _) => ("ns", Measure::OffCpu(session)),
            (false, true) => {
                let unit = tables.profiler_session.timebase_unit().get(session);
                let unit = match strings.text(unit) {
                    "" | "count" if name == "samples" => "samples",
                    "" | "count" => name,
                    unit => unit,
                };
                (unit, Measure::Samples(session))
            }
            (false, false) => ("samples", Measure::Samples(session)),
        };
        profiles.push(Profile {
            name: shown.to_owned(),
            unit: unit.to_owned(),
            measure,
            is_weighted: is_weighted || is_off_cpu,
        });
    }
    let mut heaps: Vec<StringId> = Vec::new();
    for heap in tables.heap_profile_allocation.heap_name().as_slice() {
        if !heaps.contains(heap) && heaps.len() < 64 {
            heaps.push(*heap);
        }
    }
    for heap in heaps {
        for (of, what, unit) in Allocations::ALL {
            profiles.push(Profile {
                name: format!("{}: {what}", strings.text(heap)),
                unit: unit.to_owned(),
                measure: Measure::Heap { heap, of },
                is_weighted: false,
            });
        }
    }
    profiles
}

/// Returns true if a counter's arguments say that it triggers samples.
fn is_timebase(trace: &Trace, set: u32) -> bool {
    let strings = trace.strings();
    let mut args = trace.tables().args.set(set);
    args.any(|arg| {
        strings.text(arg.key).ends_with("is_timebase") && arg.value == ArgValue::Bool(true)
    })
}

/// Returns the value of the timebase at a sample: `counter.id`.
fn timebase(trace: &Trace, sample: u32) -> Option<u32> {
    let tables = trace.tables();
    let set = tables.profiler_sample.counter_set_id().get(sample)?;
    let sets = &tables.profiler_counter_set;
    let ids = sets.counter_set_id().as_slice();
    let first = ids.partition_point(|id| *id < set);
    (ids.get(first) == Some(&set)).then(|| sets.counter_id().get(first as u32))
}

/// Returns the weight of each sample, such as its waiting time. Empty if no profile has weights.
fn sample_weights(trace: &Trace, profiles: &[Profile]) -> Vec<f64> {
    if !profiles.iter().any(|profile| profile.is_weighted) {
        return Vec::new();
    }
    let is_weighted = |session: Option<u32>| {
        let session = session.unwrap_or(u32::MAX);
        let (samples, waits) = (Measure::Samples(session), Measure::OffCpu(session));
        let is_of = |profile: &&Profile| [samples, waits].contains(&profile.measure);
        profiles
            .iter()
            .find(is_of)
            .is_some_and(|profile| profile.is_weighted)
    };
    let (tables, strings) = (trace.tables(), trace.strings());
    let growing = strings.find("perf_cpu_counter");
    let mut before: FxHashMap<u32, f64> = FxHashMap::default();
    let samples = &tables.profiler_sample;
    let weight = |row: u32| {
        if !is_weighted(samples.session_id().get(row)) {
            return 0.0;
        }
        let Some(counter) = timebase(trace, row) else {
            return 0.0;
        };
        let value = tables.counter.value().get(counter);
        let track = tables.counter.track_id().get(counter);
        if Some(tables.track.type_().get(track)) != growing {
            return value;
        }
        // These counters are cumulative, one for each CPU.
        let last = before.insert(track, value).unwrap_or(0.0);
        (value - last).max(0.0)
    };
    (0..samples.len()).map(weight).collect()
}
