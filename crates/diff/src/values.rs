//! The values of the features of a recording.

use rustc_hash::FxHashMap;

use crate::feature::Feature;

/// The maximum number of features of a recording. Further ones are left out.
const MAX_FEATURES: usize = 50_000;

/// The number of windows of a recording, by which the variation within it is known.
pub(crate) const WINDOWS: usize = 32;

/// The value of a feature.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Value {
    /// The value: for times and counts, the sum.
    pub(crate) value: f64,
    /// The relative standard error with which the recording tells the value.
    pub(crate) error: f64,
    /// The parts of the value by window of the recording. Empty if they are not known.
    pub(crate) windows: Vec<f32>,
    /// The number of samples that the value is estimated from; 0 if it is not.
    pub(crate) samples: f64,
    /// The time of a sample.
    pub(crate) sample_time: f64,
    /// For slices: the sum of their durations.
    pub(crate) total: f64,
    /// The wait of another thread that this explains, in words.
    pub(crate) via: String,
}

/// The features of a recording with their values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    all: FxHashMap<Feature, Value>,
    /// Set if features were left out.
    pub(crate) is_cut: bool,
}

impl Values {
    /// Returns the value of a feature. `None` if there are too many.
    pub(crate) fn entry(&mut self, feature: Feature) -> Option<&mut Value> {
        if self.all.len() >= MAX_FEATURES && !self.all.contains_key(&feature) {
            self.is_cut = true;
            return None;
        }
        Some(self.all.entry(feature).or_default())
    }

    /// Adds to the value of a feature.
    pub(crate) fn add(&mut self, feature: Feature, value: f64) {
        if let Some(known) = self.entry(feature) {
            known.value += value;
        }
    }

    /// Adds to the value of a feature, and keeps the largest error.
    pub(crate) fn add_with_error(&mut self, feature: Feature, value: f64, error: f64) {
        if let Some(known) = self.entry(feature) {
            known.value += value;
            known.error = known.error.max(error);
        }
    }

    /// Adds to the value of a feature, by window.
    pub(crate) fn add_parts(&mut self, feature: Feature, parts: &[i64; WINDOWS]) {
        let Some(known) = self.entry(feature) else {
            return;
        };
        known.windows.resize(WINDOWS, 0.0);
        for (known, part) in known.windows.iter_mut().zip(parts) {
            *known += *part as f32;
        }
        known.value += parts.iter().sum::<i64>() as f64;
    }

    /// Sets the value of a feature, and the error with which it is known.
    pub(crate) fn set(&mut self, feature: Feature, value: f64, error: f64) {
        if let Some(known) = self.entry(feature) {
            (known.value, known.error) = (value, error);
        }
    }

    pub(crate) fn get(&self, feature: &Feature) -> Option<&Value> {
        self.all.get(feature)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Feature, &Value)> {
        self.all.iter()
    }
}
