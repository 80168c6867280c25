//! Calibrated bounds: those that recordings of the same keep.

use std::collections::{BTreeMap, BTreeSet};

use super::values::{Function, greatest_new};
use super::{Measure, Rule};
use crate::feature::Kind;
use crate::recording::Recording;
use crate::statistics::{mean, squares, student_quantile, tolerance};

/// Returns the value of new functions for each recording, if only those of the others and `known`
/// are known. `functions` has the functions of each recording.
pub fn held_out(functions: &[BTreeMap<String, Function>], known: &BTreeSet<String>) -> Vec<f64> {
    let mut recordings: BTreeMap<&str, u32> = BTreeMap::new();
    for name in functions.iter().flat_map(known_in) {
        *recordings.entry(name).or_default() += 1;
    }
    let is_known = |name: &str, function: &Function| {
        let own = u32::from(function.share >= KNOWN_SHARE);
        known.contains(name) || recordings.get(name).is_some_and(|all| *all > own)
    };
    let new = functions.iter().map(|all| greatest_new(all, is_known));
    new.collect()
}

/// Returns the functions that a recording makes known.
pub fn known_in(functions: &BTreeMap<String, Function>) -> impl Iterator<Item = &str> {
    let known = functions
        .iter()
        .filter(|(_, function)| function.share >= KNOWN_SHARE);
    known.map(|(name, _)| name.as_str())
}

/// Returns the number of samples of time on CPUs.
pub fn samples(recording: &Recording) -> f64 {
    let functions = recording.values.iter();
    let functions = functions.filter(|(feature, _)| feature.kind == Kind::Cpu);
    functions.map(|(_, value)| value.samples).sum()
}

/// The least bound of a share.
const LEAST_SHARE: f64 = 0.05;

/// The share from which on a function is known.
const KNOWN_SHARE: f64 = 0.001;

impl Rule {
    /// Adds a remark if the bound is far from the values that it was calibrated with: those of new
    /// functions are the ones that [`held_out`] returns.
    pub fn remark_on(&mut self, values: &[f64]) {
        /// The ratio from which on a bound is far from a value.
        const FAR: f64 = 2.0;
        let values = values.iter().copied();
        let (least, greatest) = (
            values.clone().fold(f64::INFINITY, f64::min),
            values.clone().fold(0.0, f64::max),
        );
        // Smaller shares are of no interest.
        let interesting = match self.measure {
            Measure::Loss => return,
            Measure::Function(_) => LEAST_SHARE,
            Measure::NewFunctions => 4.0 * LEAST_SHARE,
            _ => 0.0,
        };
        let format = |value| self.measure.format(value);
        let far = match (self.min, self.max) {
            (_, Some(max)) if greatest > 0.0 && max > (FAR * greatest).max(interesting) => {
                let ratio = max / greatest;
                format!(
                    "the bound {} is {ratio:.1} times the greatest value",
                    format(max)
                )
            }
            (Some(min), None) if min * FAR < least => {
                let ratio = min / least;
                format!("the bound {} is {ratio:.2} of the least value", format(min))
            }
            _ => return,
        };
        self.remark = Some(format!(
            "{far} of {} recordings ({} to {}), so that it finds nothing smaller: calibrate with \
             more recordings, of a machine that does little else",
            values.count(),
            format(least),
            format(greatest)
        ));
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
                self.max = Some(bound(1.0).clamp(LEAST_SHARE, 1.0));
            }
            _ => self.max = Some(bound(1.0)),
        }
    }

    /// Sets the upper bound of a rule about new functions, so that a further recording like those
    /// with these numbers of samples is outside with a probability of at most `chance`: it has
    /// functions that none of them shows as they are rare. `held_out` has the value of each
    /// recording for which only the functions of the others are known.
    pub fn calibrate_new_functions(&mut self, samples: &[f64], held_out: &[f64], chance: f64) {
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
        self.max = Some((count * GROUP / few).max(clumps).clamp(LEAST_SHARE, 1.0));
    }
}
