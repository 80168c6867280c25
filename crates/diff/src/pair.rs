//! The test of one feature.

use crate::feature::{Feature, Kind};
use crate::statistics::{block_error, mean, permutation, squares, student};
use crate::values::Value;
use crate::variation::{Busyness, assumed};

/// The degrees of freedom of the assumed variation between recordings.
const ASSUMED_DEGREES: f64 = 4.0;
/// Those if there is one recording each, and nothing else is known.
const ONLY_ASSUMED_DEGREES: f64 = 40.0;

/// The number of recordings of each set from which on they are permuted, and the probability of
/// chance above which a difference is not a change.
const PERMUTED: f64 = 4.0;
const MAX_CHANCE: f64 = 0.03;

/// The values of a feature in two sets of recordings.
pub(crate) struct Pair<'a> {
    pub(crate) feature: &'a Feature,
    pub(crate) before: Vec<f64>,
    pub(crate) after: Vec<f64>,
    pub(crate) known: Vec<&'a Value>,
    /// The time of a sample that the values are estimated from; 0 if they are not.
    pub(crate) sample_time: f64,
    /// The standard deviation of the values that is assumed beside that of their logarithms.
    pub(crate) noise: f64,
}

impl Pair<'_> {
    /// Tests the difference of the logarithms of the values.
    pub(crate) fn p(&self, least: f64, busyness: Busyness) -> f64 {
        let log = |values: &[f64]| -> Vec<f64> {
            values
                .iter()
                .map(|value| (value.max(0.0) + least).ln())
                .collect()
        };
        let (before, after) = (log(&self.before), log(&self.after));
        let difference = mean(&after) - mean(&before);
        let (n, m) = (before.len() as f64, after.len() as f64);
        let degrees = n + m - 2.0;
        let assumed = assumed(self.feature, busyness, degrees).powi(2);
        let sum = squares(&before) + squares(&after);
        let (variance, degrees) = if degrees == 0.0 {
            (assumed + self.error(least) / 2.0, ONLY_ASSUMED_DEGREES)
        } else if sum > assumed * degrees {
            (sum / degrees, degrees)
        } else {
            let both = ASSUMED_DEGREES * assumed + sum;
            (
                both / (ASSUMED_DEGREES + degrees),
                ASSUMED_DEGREES + degrees,
            )
        };
        let p = student(
            difference / (variance * (1.0 / n + 1.0 / m)).sqrt(),
            degrees,
        );
        // Student's test assumes a shape of the values. From a number of recordings on, chance has
        // to be unlikely without it, too.
        let is_permuted = n.min(m) >= PERMUTED && p < MAX_CHANCE;
        if is_permuted && permutation(&before, &after, 1) > MAX_CHANCE {
            return MAX_CHANCE;
        }
        p
    }

    /// Returns the variance of the difference that is due to the recordings' own errors.
    fn error(&self, least: f64) -> f64 {
        let of_value = |(seed, value): (usize, &&Value)| {
            let windows = match self.feature.kind {
                Kind::Wait => block_error(&value.windows, seed as u64).powi(2),
                _ => 0.0,
            };
            value.error.powi(2) + windows
        };
        let known: f64 = self.known.iter().enumerate().map(of_value).sum();
        // Samples are counted, also those that are not there. They come in groups.
        let sampled = self.before.iter().chain(&self.after).map(|value| {
            let count = (value.max(0.0) / self.sample_time.max(1.0)) + 0.5;
            let noise = self.noise.powi(2);
            (2.0 * count * self.sample_time.powi(2) + noise) / (value.max(0.0) + least).powi(2)
        });
        known + sampled.sum::<f64>()
    }
}
