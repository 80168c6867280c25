//! Rules: bounds of the values of recordings.

mod calibration;
mod text;
mod values;

use std::collections::BTreeSet;

use crate::recording::Recording;

pub use calibration::{held_out, known_in, samples};
pub use values::{Function, functions, value};

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
    /// The greatest share of a function that is not known and has three samples.
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
    /// A remark about its calibration.
    pub remark: Option<String>,
}

/// Rules of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// The functions that are not new.
    pub known_functions: BTreeSet<String>,
    /// The greatest share of the time in which other programs had the CPUs for which the command
    /// waited, of the recordings with which the rules were calibrated.
    pub behind_others: Option<f64>,
}

/// The part and the share by which other programs have to have the CPUs for longer than in the
/// recordings of a calibration, so that a recording does not compare with these: that much is
/// chance.
const BUSIER: f64 = 0.25;
const BUSIER_SHARE: f64 = 0.05;

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

    /// Returns true if it is a time.
    fn is_time(&self) -> bool {
        self.unit() == "ns"
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

    /// Judges the value of a recording by one of these rules.
    ///
    /// A time that is too long on a machine that was busier than those of the calibration cannot be
    /// judged, unless it is so much too long that this does not explain it. Nor can an own duration
    /// that may be too long only as switches of threads are missing: other programs may have had
    /// the CPUs.
    pub fn judge(&self, rule: &Rule, value: Result<f64, String>, recording: &Recording) -> Verdict {
        /// The greatest part of the bound by which other programs make a time longer.
        const MOST: f64 = 1.0;
        let verdict = rule.judge(value);
        if let (Verdict::Broken(value, text), Some(max)) = (&verdict, rule.max)
            && rule.measure == Measure::OwnDuration
            && *value > max
            && *value - recording.lost <= max
        {
            return Verdict::Unknown(format!(
                "{text}, but for {} nothing is known, as the kernel left out switches of threads: \
                 record again",
                rule.measure.format(recording.lost)
            ));
        }
        let (Some(calibrated), Some(others)) = (self.behind_others, recording.behind_others())
        else {
            return verdict;
        };
        let is_busier = others > calibrated * (1.0 + BUSIER) + BUSIER_SHARE;
        match (verdict, rule.max) {
            (Verdict::Broken(value, text), Some(max))
                if is_busier
                    && rule.measure.is_time()
                    && value > max
                    && value <= max * (1.0 + MOST) =>
            {
                Verdict::Unknown(format!(
                    "{text}, but other programs had the CPUs for {:.1} % of the time, and for at \
                     most {:.1} % in the recordings of the calibration: record again on a machine \
                     that does less else, or calibrate with recordings like this one",
                    others * 100.0,
                    calibrated * 100.0
                ))
            }
            (verdict, _) => verdict,
        }
    }
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
}
