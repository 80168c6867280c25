//! The load of the machines that were recorded.

/// The shares of the time that threads were ready in which they had no CPU: the least and the most
/// of the recordings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busyness {
    pub(crate) least: f64,
    pub(crate) most: f64,
}
