//! Rules: bounds of the values of recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ferretto_tables::Trace;

use crate::feature::Kind;
use crate::recording::Recording;
use crate::statistics::{mean, quantile, squares, student_quantile, tolerance};
use crate::toml::{self, Table, Value, quoted};

/// A statistic of the durations of slices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// A quantile, from 0 to 1.
    Quantile(f64),
    /// The mean.
    Mean,
    /// The sum.
    Total,
    /// The number.
    Count,
}

/// A value of a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    /// The time from the beginning to the end of the recorded command.
    Duration,
    /// That time without the waits for a CPU that another program had, and without what these add
    /// by cold caches.
    OwnDuration,
    /// The time on CPUs of the processes of the recorded command, without what other programs add
    /// by cold caches.
    Cpu,
    /// A statistic of the slices of a name.
    Slice(String, Statistic),
    /// The share of a function of the time on CPUs.
    Function(String),
    /// The time of a function on CPUs.
    FunctionTime(String),
    /// The greatest share of a function that is not known.
    NewFunctions,
    /// The number of calls of a system call.
    Calls(String),
    /// The number of losses of data.
    Loss,
    /// The number that a query returns.
    Sql(String),
}

/// A bound of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The name, if it has one.
    pub name: Option<String>,
    /// The line of the file with which it begins.
    pub line: usize,
    /// The value.
    pub measure: Measure,
    /// The least value that is allowed.
    pub min: Option<f64>,
    /// The greatest value that is allowed.
    pub max: Option<f64>,
}

/// Rules of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// The functions that are not new.
    pub known_functions: BTreeSet<String>,
}

/// A judgement of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The value is within its bounds.
    Holds(f64),
    /// The value is outside of its bounds.
    Broken(f64, String),
    /// The value is not known, for this reason.
    Unknown(String),
}

impl Measure {
    /// Returns the units of its bounds, each with its factor. The first is the one to show.
    fn units(&self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Slice(_, Statistic::Count) | Self::Calls(_) | Self::Loss | Self::Sql(_) => &[],
            Self::Duration
            | Self::OwnDuration
            | Self::Cpu
            | Self::FunctionTime(_)
            | Self::Slice(..) => &[
                ("ms", 1e6),
                ("us", 1e3),
                ("µs", 1e3),
                ("ns", 1.0),
                ("s", 1e9),
            ],
            Self::Function(_) | Self::NewFunctions => &[("%", 0.01)],
        }
    }

    /// Returns the unit of the values, for programs.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Slice(_, Statistic::Count) | Self::Calls(_) | Self::Loss => "count",
            Self::Sql(_) => "value",
            Self::Duration | Self::OwnDuration | Self::Cpu => "ns",
            Self::FunctionTime(_) | Self::Slice(..) => "ns",
            Self::Function(_) | Self::NewFunctions => "share",
        }
    }

    /// Formats a value.
    pub fn format(&self, value: f64) -> String {
        match self.units().first() {
            Some((unit, factor)) => format!("{:.3} {unit}", value / factor),
            None => format!("{value}"),
        }
    }
}

impl Rules {
    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not TOML, or a rule is not known, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        for table in toml::parse(text)? {
            match table.name.as_str() {
                "" => {
                    for (key, value, line) in table.keys {
                        match (key.as_str(), value) {
                            ("known-functions", Value::Texts(names)) => {
                                rules.known_functions.extend(names);
                            }
                            _ => return Err(format!("line {line}: unknown key {key}")),
                        }
                    }
                }
                "rule" => rules.rules.push(rule(&table)?),
                _ => return Err(format!("line {}: expected [[rule]]", table.line)),
            }
        }
        if rules.rules.is_empty() {
            return Err("it has no rules; begin each with [[rule]]".to_owned());
        }
        Ok(rules)
    }

    /// Makes rules about durations that have no bounds such about own durations, for which bounds
    /// can be calibrated: how long other programs have the CPUs differs more than the recordings
    /// of an hour tell.
    pub fn leave_out_others(&mut self) {
        for rule in &mut self.rules {
            if rule.measure == Measure::Duration && (rule.min, rule.max) == (None, None) {
                rule.measure = Measure::OwnDuration;
            }
        }
    }

    /// Returns the text of these rules.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.known_functions.is_empty() {
            let names: Vec<String> = self
                .known_functions
                .iter()
                .map(|name| quoted(name))
                .collect();
            let _ = writeln!(text, "known-functions = [{}]\n", names.join(", "));
        }
        for rule in &self.rules {
            let _ = writeln!(text, "[[rule]]");
            if let Some(name) = &rule.name {
                let _ = writeln!(text, "name = {}", quoted(name));
            }
            let (key, value) = match &rule.measure {
                Measure::Duration => ("measure", "duration"),
                Measure::OwnDuration => ("measure", "own-duration"),
                Measure::Cpu => ("measure", "cpu"),
                Measure::NewFunctions => ("measure", "new-functions"),
                Measure::Loss => ("measure", "loss"),
                Measure::Slice(name, _) => ("slice", name.as_str()),
                Measure::Function(name) | Measure::FunctionTime(name) => {
                    ("function", name.as_str())
                }
                Measure::Calls(name) => ("calls", name.as_str()),
                Measure::Sql(sql) => ("sql", sql.as_str()),
            };
            let _ = writeln!(text, "{key} = {}", quoted(value));
            if let Measure::FunctionTime(_) = rule.measure {
                let _ = writeln!(text, "measure = \"time\"");
            }
            if let Measure::Slice(_, statistic) = &rule.measure {
                let statistic = match statistic {
                    Statistic::Quantile(part) if *part >= 1.0 => "max".to_owned(),
                    Statistic::Quantile(part) => format!("p{}", part * 100.0),
                    Statistic::Mean => "mean".to_owned(),
                    Statistic::Total => "total".to_owned(),
                    Statistic::Count => "count".to_owned(),
                };
                let _ = writeln!(text, "measure = {}", quoted(&statistic));
            }
            for (key, bound) in [("min", rule.min), ("max", rule.max)] {
                let Some(bound) = bound else {
                    continue;
                };
                let _ = match rule.measure.units().first() {
                    Some((unit, factor)) => {
                        writeln!(text, "{key} = \"{:.6}{unit}\"", bound / factor)
                    }
                    None => writeln!(text, "{key} = {bound}"),
                };
            }
            text.push('\n');
        }
        text
    }
}

/// Reads a rule.
fn rule(table: &Table) -> Result<Rule, String> {
    let text = |wanted: &str| -> Result<Option<&str>, String> {
        match table.keys.iter().find(|(key, _, _)| key == wanted) {
            None => Ok(None),
            Some((_, Value::Text(text), _)) => Ok(Some(text)),
            Some((_, _, line)) => Err(format!("line {line}: {wanted} has to be a text")),
        }
    };
    let known = [
        "name", "measure", "slice", "function", "calls", "sql", "min", "max",
    ];
    if let Some((key, _, line)) = table
        .keys
        .iter()
        .find(|(key, _, _)| !known.contains(&key.as_str()))
    {
        return Err(format!(
            "line {line}: unknown key {key}; known are {}",
            known.join(", ")
        ));
    }
    let line = table.line;
    let measure = text("measure")?;
    let subjects = (
        text("slice")?,
        text("function")?,
        text("calls")?,
        text("sql")?,
    );
    let measure = match (subjects, measure) {
        ((Some(name), None, None, None), measure) => {
            Measure::Slice(name.to_owned(), statistic(measure.unwrap_or("p50"), line)?)
        }
        ((None, Some(name), None, None), None | Some("share")) => {
            Measure::Function(name.to_owned())
        }
        ((None, Some(name), None, None), Some("time")) => Measure::FunctionTime(name.to_owned()),
        ((None, None, Some(name), None), None | Some("count")) => Measure::Calls(name.to_owned()),
        ((None, None, None, Some(sql)), None) => Measure::Sql(sql.to_owned()),
        ((None, None, None, None), Some("duration")) => Measure::Duration,
        ((None, None, None, None), Some("own-duration")) => Measure::OwnDuration,
        ((None, None, None, None), Some("cpu")) => Measure::Cpu,
        ((None, None, None, None), Some("new-functions")) => Measure::NewFunctions,
        ((None, None, None, None), Some("loss")) => Measure::Loss,
        _ => {
            return Err(format!(
                "line {line}: a rule has one of slice (with measure p50, p99, max, mean, total or \
                 count), function (with measure share or time), calls, sql, or measure = \
                 \"duration\", \"own-duration\", \"cpu\", \"loss\" or \"new-functions\""
            ));
        }
    };
    let bound = |wanted: &str| -> Result<Option<f64>, String> {
        let Some((_, value, line)) = table.keys.iter().find(|(key, _, _)| key == wanted) else {
            return Ok(None);
        };
        let error = || match measure.units() {
            [] => format!("line {line}: {wanted} has to be a number"),
            units => {
                let units: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
                format!(
                    "line {line}: {wanted} has to be a number with one of {}",
                    units.join(", ")
                )
            }
        };
        let parsed = match value {
            Value::Number(number) if measure.units().is_empty() || *number == 0.0 => Some(*number),
            Value::Text(text) => measure.units().iter().find_map(|(unit, factor)| {
                let number = text.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()?;
                number.is_finite().then_some(number * factor)
            }),
            _ => None,
        };
        parsed.map(Some).ok_or_else(error)
    };
    let (min, max) = (bound("min")?, bound("max")?);
    let max = max.or((measure == Measure::Loss).then_some(0.0));
    Ok(Rule {
        name: text("name")?.map(str::to_owned),
        line,
        measure,
        min,
        max,
    })
}

fn statistic(text: &str, line: usize) -> Result<Statistic, String> {
    let percent = text
        .strip_prefix('p')
        .and_then(|text| text.parse::<f64>().ok());
    match (text, percent) {
        ("max", _) => Ok(Statistic::Quantile(1.0)),
        ("mean", _) => Ok(Statistic::Mean),
        ("total", _) => Ok(Statistic::Total),
        ("count", _) => Ok(Statistic::Count),
        (_, Some(percent)) if (0.0..=100.0).contains(&percent) => {
            Ok(Statistic::Quantile(percent / 100.0))
        }
        _ => Err(format!(
            "line {line}: unknown measure of slices; known are p50, p99 and so on, max, mean, total, count"
        )),
    }
}

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

/// Returns the value of new functions for each recording, if only those of the others and `known`
/// are known. `shares` has the shares of the recordings' functions.
pub fn held_out(shares: &[BTreeMap<String, f64>], known: &BTreeSet<String>) -> Vec<f64> {
    let mut recordings: BTreeMap<&str, u32> = BTreeMap::new();
    for name in shares.iter().flat_map(known_in) {
        *recordings.entry(name).or_default() += 1;
    }
    let of_others = |name: &String, share: f64| {
        let own = u32::from(share >= KNOWN_SHARE);
        recordings.get(name.as_str()).is_some_and(|all| *all > own)
    };
    let new = shares.iter().map(|functions| {
        let new = functions
            .iter()
            .filter(|(name, share)| !known.contains(*name) && !of_others(name, **share));
        new.map(|(_, share)| *share).fold(0.0, f64::max)
    });
    new.collect()
}

/// Returns the functions that a recording makes known.
pub fn known_in(shares: &BTreeMap<String, f64>) -> impl Iterator<Item = &str> {
    let known = shares.iter().filter(|(_, share)| **share >= KNOWN_SHARE);
    known.map(|(name, _)| name.as_str())
}

/// Returns the number of samples of time on CPUs.
pub fn samples(recording: &Recording) -> f64 {
    let functions = recording.values.iter();
    let functions = functions.filter(|(feature, _)| feature.kind == Kind::Cpu);
    functions.map(|(_, value)| value.samples).sum()
}

/// The share from which on a function is known.
const KNOWN_SHARE: f64 = 0.001;

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

impl Rule {
    /// Returns its name, or its place in the file.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("the rule in line {}", self.line),
        }
    }

    /// Judges a value.
    pub fn judge(&self, value: Result<f64, String>) -> Verdict {
        let value = match value {
            Ok(value) => value,
            Err(reason) => return Verdict::Unknown(reason),
        };
        let format = |value| self.measure.format(value);
        match (self.min, self.max) {
            (None, None) => {
                Verdict::Unknown("it has no bounds; give min or max, or calibrate it".to_owned())
            }
            (_, Some(max)) if value > max => Verdict::Broken(
                value,
                format!("{} is more than {}", format(value), format(max)),
            ),
            (Some(min), _) if value < min => Verdict::Broken(
                value,
                format!("{} is less than {}", format(value), format(min)),
            ),
            _ => Verdict::Holds(value),
        }
    }

    /// Sets the upper bound, or the lower one if the rule has only that, so that of further
    /// recordings like these at most `chance` are outside, with a confidence of 95 %.
    pub fn calibrate(&mut self, values: &[f64], chance: f64) {
        /// The assumed variation between recordings, and its degrees of freedom.
        const ASSUMED: f64 = 0.05;
        const DEGREES: f64 = 4.0;
        /// The confidence with which a bound covers what it should.
        const CONFIDENCE: f64 = 0.95;
        let count = values.len() as f64;
        let middle = mean(values);
        let least = middle.abs() * 1e-3 + 1e-9;
        let logs: Vec<f64> = values
            .iter()
            .map(|value| (value.max(0.0) + least).ln())
            .collect();
        let (sum, degrees) = (squares(&logs), count - 1.0);
        let moderated = (DEGREES * ASSUMED * ASSUMED + sum) / (DEGREES + degrees);
        let (variance, degrees) = if degrees > 0.0 && sum / degrees > moderated {
            (sum / degrees, degrees)
        } else {
            (moderated, DEGREES + degrees)
        };
        // A few recordings may all be closer to each other than most: the first bound is right on
        // average, the second one for nearly all sets of recordings.
        let next = student_quantile(chance, degrees) * (1.0 + 1.0 / count).sqrt();
        let width = next.max(tolerance(chance, count, degrees, CONFIDENCE)) * variance.sqrt();
        let bound = |sign: f64| (mean(&logs) + sign * width).exp();
        match (self.min, self.max, &self.measure) {
            (_, _, Measure::Loss | Measure::NewFunctions) => {}
            (Some(_), None, _) => self.min = Some(bound(-1.0)),
            // A share that was 0 may be small.
            (_, _, Measure::Function(_)) => {
                self.max = Some(bound(1.0).clamp(0.05, 1.0));
            }
            _ => self.max = Some(bound(1.0)),
        }
    }

    /// Sets the upper bound of a rule about new functions, so that a further recording like those
    /// with these numbers of samples is outside with a probability of at most `chance`: it has
    /// functions that none of them shows as they are rare. `held_out` has the value of each
    /// recording for which only the functions of the others are known.
    pub fn calibrate_new_functions(&mut self, samples: &[f64], held_out: &[f64], chance: f64) {
        /// The least bound.
        const LEAST: f64 = 0.05;
        /// The number of samples that come together: those of one call of a function.
        const GROUP: f64 = 2.0;
        /// The share times the number of samples above which a function is seen with 95 %.
        const UNSEEN: f64 = 3.0;
        let all: f64 = samples.iter().sum();
        let few = samples.iter().copied().fold(f64::INFINITY, f64::min);
        if self.measure != Measure::NewFunctions || few < 1.0 || all <= 0.0 {
            return;
        }
        // The groups of such a function in the recording with the fewest samples: Poisson's
        // distribution.
        let expected = few * UNSEEN / all / GROUP;
        let (mut count, mut term) = (0.0, (-expected).exp());
        let mut more = 1.0 - term;
        while more > chance && count * GROUP < few {
            count += 1.0;
            term *= expected / count;
            more -= term;
        }
        // In short processes, more samples than that come together.
        let degrees = held_out.len() as f64 - 1.0;
        let clumps = if degrees >= 1.0 {
            let variance = squares(held_out) / degrees * (1.0 + 1.0 / held_out.len() as f64);
            mean(held_out) + student_quantile(chance, degrees) * variance.sqrt()
        } else {
            0.0
        };
        self.max = Some((count * GROUP / few).max(clumps).clamp(LEAST, 1.0));
    }
}
