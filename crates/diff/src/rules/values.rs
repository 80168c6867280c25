//! The values of recordings.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_tables::Trace;

use super::{Measure, Statistic};
use crate::feature::Kind;
use crate::recording::Recording;
use crate::statistics::{mean, quantile};

/// Returns the times of functions on CPUs.
fn function_times(recording: &Recording) -> BTreeMap<String, f64> {
    let mut functions: BTreeMap<String, f64> = BTreeMap::new();
    for (feature, value) in recording.values.iter() {
        if feature.kind == Kind::Cpu && !feature.detail.is_empty() {
            *functions.entry(feature.detail.clone()).or_default() += value.value;
        }
    }
    functions
}

/// Returns the shares of functions of the time on CPUs.
pub fn functions(recording: &Recording) -> BTreeMap<String, f64> {
    let mut functions = function_times(recording);
    let all: f64 = functions.values().sum();
    for share in functions.values_mut() {
        *share /= all.max(1.0);
    }
    functions
}

/// The reason for which nothing is known of functions.
const NO_SAMPLES: &str = "the recording has no callstacks; record them with --perf";

/// Returns the number of a function, 0 if it has none.
fn of_function(functions: BTreeMap<String, f64>, name: &str) -> Result<f64, String> {
    if functions.is_empty() {
        return Err(NO_SAMPLES.to_owned());
    }
    Ok(functions.get(name).copied().unwrap_or(0.0))
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
        Measure::Function(name) => of_function(functions(recording), name),
        Measure::FunctionTime(name) => of_function(function_times(recording), name),
        Measure::NewFunctions if known.is_empty() => Err(
            "no functions are known; name recordings with --baseline, or calibrate the rules"
                .to_owned(),
        ),
        Measure::NewFunctions => {
            let functions = functions(recording);
            if functions.is_empty() {
                return Err(NO_SAMPLES.to_owned());
            }
            let new = functions.iter().filter(|(name, _)| !known.contains(*name));
            Ok(new.map(|(_, share)| *share).fold(0.0, f64::max))
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
