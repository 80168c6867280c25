//! A change of one feature.

use crate::feature::Feature;

/// A feature that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The feature.
    pub feature: Feature,
    /// The mean value before. Per second unless a command is compared or the kind is
    /// [`Median`](Kind::Median) or [`Tail`](Kind::Tail).
    pub before: f64,
    /// The mean value after.
    pub after: f64,
    /// The probability of such a difference between recordings of the same.
    pub p: f64,
    /// The rate of false discoveries among all with at most this `p`.
    pub q: f64,
    /// The size by which changes are ranked: the change of time as a share of the compared time.
    pub size: f64,
    /// The wait of another thread that this explains, in words.
    pub via: String,
    /// The part of the feature that changed the most, if its parts are not listed.
    pub mostly: String,
}

impl Change {
    /// Returns the difference of the values.
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }
}
