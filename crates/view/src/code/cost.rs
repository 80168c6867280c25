//! The weight of samples.

/// The weight of samples.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// Samples whose innermost frame is here.
    pub(super) own: f64,
    /// Samples with any frame here.
    pub(super) all: f64,
}

impl Cost {
    pub(super) fn add(&mut self, weight: f64, is_innermost: bool) {
        self.all += weight;
        if is_innermost {
            self.own += weight;
        }
    }
}
