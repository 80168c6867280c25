//! The values of recordings.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_tables::Trace;

use super::{Measure, Statistic};
use crate::feature::Kind;
use crate::recording::Recording;
use crate::statistics::{mean, quantile};

/// The time of a function on CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Function {
    /// The time in nanoseconds.
    pub time: f64,
    /// The share of the time of all functions.
    pub share: f64,
    /// The number of samples from which the time is estimated.
    pub samples: f64,
}

/// Returns the functions that a recording shows on CPUs.
pub fn functions(recording: &Recording) -> BTreeMap<String, Function> {
    let mut functions: BTreeMap<String, Function> = BTreeMap::new();
    for (feature, value) in recording.values.iter() {
        if feature.kind == Kind::Cpu && !feature.detail.is_empty() {
            let function = functions.entry(feature.detail.clone()).or_default();
            function.time += value.value;
            function.samples += value.samples;
        }
    }
    let all: f64 = functions.values().map(|function| function.time).sum();
    for function in functions.values_mut() {
        function.share = function.time / all.max(1.0);
    }
    functions
}

/// Returns the greatest share of a function that is not known.
///
/// One with few samples does not count: a rare function can have one, and in a short process a
/// sample is a large share.
pub(super) fn greatest_new(
    functions: &BTreeMap<String, Function>,
    is_known: impl Fn(&str, &Function) -> bool,
) -> f64 {
    /// The least number of samples: more than come together in a call.
    const SAMPLES: f64 = 3.0;
    let new = functions
        .iter()
        .filter(|(name, function)| function.samples >= SAMPLES && !is_known(name, function));
    new.map(|(_, function)| function.share).fold(0.0, f64::max)
}

/// The reason for which nothing is known of functions.
const NO_SAMPLES: &str = "the recording has no callstacks; record them with --perf";

/// Returns the functions of a recording, and an error if it has none.
fn known_functions(recording: &Recording) -> Result<BTreeMap<String, Function>, String> {
    let functions = functions(recording);
    if functions.is_empty() {
        return Err(NO_SAMPLES.to_owned());
    }
    Ok(functions)
}

/// Returns a function; if it has no samples, its numbers are 0.
fn of_function(recording: &Recording, name: &str) -> Result<Function, String> {
    let functions = known_functions(recording)?;
    Ok(functions.get(name).copied().unwrap_or_default())
}

/// The shares of the time in which the command waited for CPUs of other programs by which it takes
/// longer itself, and by which it runs longer: it finds caches cold, and is interrupted more often.
/// Measured at up to ten programs for each CPU.
const COLD_SHARE: f64 = 0.03;
const COLD_CPU_SHARE: f64 = 0.012;

/// Returns a time without what other programs on the CPUs add to it.
fn without_cold_caches(time: f64, recording: &Recording, share: f64) -> f64 {
    /// The largest part of it.
    const MOST: f64 = 0.25;
    time - (recording.behind_others * share).min(time * MOST)
}

/// Returns the time on CPUs of all processes.
fn time_on_cpus(recording: &Recording) -> f64 {
    let processes = recording.values.iter().filter(|(feature, _)| {
        feature.kind == Kind::Cpu && feature.thread.is_empty() && feature.detail.is_empty()
    });
    processes.map(|(_, value)| value.value).sum()
}

/// Returns the value of a measure, which is not a query.
///
/// # Errors
///
/// Fails if the recording does not tell the value, with the reason.
pub fn value(
    measure: &Measure,
    trace: &Trace,
    recording: &Recording,
    known: &BTreeSet<String>,
) -> Result<f64, String> {
    match measure {
        Measure::Duration | Measure::OwnDuration | Measure::Cpu
            if recording.scope() != crate::Scope::Command =>
        {
            Err("it is not the recording of a command".to_owned())
        }
        Measure::OwnDuration | Measure::Cpu if !recording.recorded.switches => {
            Err("the recording has no scheduling; record it with --sched".to_owned())
        }
        Measure::Duration => Ok(recording.duration),
        Measure::OwnDuration => {
            let own = recording.duration - recording.behind_others;
            Ok(without_cold_caches(own, recording, COLD_SHARE))
        }
        Measure::Cpu => {
            let time = time_on_cpus(recording);
            Ok(without_cold_caches(time, recording, COLD_CPU_SHARE))
        }
        Measure::Loss => Ok(recording.losses as f64),
        Measure::Sql(_) => Err("it is a query".to_owned()),
        Measure::Calls(name) => {
            let calls = recording
                .values
                .iter()
                .filter(|(it, _)| it.kind == Kind::Calls);
            let mut calls = calls.peekable();
            if calls.peek().is_none() {
                return Err(
                    "the recording has no system calls; record them with --syscalls".to_owned(),
                );
            }
            Ok(calls
                .filter(|(it, _)| it.detail == *name)
                .map(|(_, value)| value.value)
                .sum())
        }
        Measure::Function(name) => Ok(of_function(recording, name)?.share),
        Measure::FunctionTime(name) => Ok(of_function(recording, name)?.time),
        Measure::NewFunctions if known.is_empty() => Err(
            "no functions are known; name recordings with --baseline, or calibrate the rules"
                .to_owned(),
        ),
        Measure::NewFunctions => {
            let functions = known_functions(recording)?;
            Ok(greatest_new(&functions, |name, _| known.contains(name)))
        }
        Measure::Slice(name, statistic) => slices(trace, name, *statistic),
    }
}

/// Returns a statistic of the slices of a name.
fn slices(trace: &Trace, name: &str, statistic: Statistic) -> Result<f64, String> {
    let slices = &trace.tables().slice;
    let id = trace.strings().find(name);
    let durations = (0..slices.len())
        .filter(|row| id == Some(slices.name().get(*row)))
        .map(|row| slices.dur().get(row));
    // Those that are open at the end have no duration.
    let mut durations: Vec<f64> = durations
        .filter(|dur| *dur >= 0)
        .map(|dur| dur as f64)
        .collect();
    if statistic == Statistic::Count {
        return Ok(durations.len() as f64);
    }
    if durations.is_empty() {
        return Err(format!("the recording has no slice {name}"));
    }
    durations.sort_by(f64::total_cmp);
    Ok(match statistic {
        Statistic::Quantile(part) => quantile(&durations, part),
        Statistic::Mean => mean(&durations),
        Statistic::Total | Statistic::Count => durations.iter().sum(),
    })
}
