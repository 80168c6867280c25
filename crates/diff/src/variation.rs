//! The variation of features between recordings of the same.

use crate::feature::{CALLS, Feature, Kind, RAN, WAITED_FOR_CPU};

/// The shares of the time that threads were ready in which they had no CPU: the least and the most
/// of the recordings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busyness {
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// Returns the variation of a feature between recordings of the same, as a standard deviation of
/// the logarithm. It is assumed, and decides alone if there is one recording each. `degrees` are
/// those of freedom of the recordings: the more of them there are, the more they tell themselves
/// how much a busy machine changes.
pub(crate) fn assumed(feature: &Feature, busyness: Busyness, degrees: f64) -> f64 {
    let (calm, busy) = match (feature.kind, feature.name.as_str()) {
        (Kind::Path, RAN) | (Kind::Cpu | Kind::CallTime, _) => (0.03, 0.15),
        (Kind::Path, CALLS) => (0.06, 0.3),
        // As waits do.
        _ if feature.is_incidental() => (0.2, 0.8),
        (Kind::Calls | Kind::Slices, _) => (0.02, 0.1),
        (Kind::Faults | Kind::Traffic | Kind::Peak | Kind::Heap, _) => (0.05, 0.1),
        (Kind::Threads, _) => (0.15, 0.1),
        // A machine that was calm before and busy after is a change.
        (Kind::Path | Kind::Wait, WAITED_FOR_CPU) => {
            return 0.2 + (0.3 + 1.5 * busyness.least) / (1.0 + degrees / 2.0);
        }
        (Kind::Path, "was interrupted") => (0.6, 0.5),
        (Kind::Path | Kind::Wait, "waited for a disk") | (Kind::RequestTime, _) => (0.4, 0.5),
        (Kind::Requests | Kind::RequestBytes, _) => (0.1, 0.2),
        (Kind::Path, "waited for a timer") => (0.1, 0.3),
        (Kind::Path | Kind::Wait, _) => (0.2, 0.8),
        (Kind::Duration | Kind::Median | Kind::SelfTime, _) => (0.04, 0.6),
        (Kind::Tail, _) => (0.15, 1.0),
        (Kind::Counter | Kind::Growth | Kind::Frequency, _) => (0.1, 0.2),
    };
    calm + busy * busyness.most / (1.0 + degrees / 2.0)
}

/// Returns the number of events below which a difference does not matter.
pub(crate) fn least_count(kind: Kind) -> f64 {
    match kind {
        Kind::Threads => 1.0,
        Kind::Faults => 500.0,
        _ => 20.0,
    }
}
