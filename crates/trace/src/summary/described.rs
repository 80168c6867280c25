//! Kernel events that the recorder described at run time.

use ferretto_format::ProbeEvent;

/// An event that the recorder described.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) probe: Option<ProbeEvent>,
    /// True if calls and returns of the function are recorded.
    pub(super) is_paired: bool,
}

impl Described {
    /// Returns true if one event is the call and the other the return of a function.
    pub(super) fn is_counterpart(&self, other: &Self) -> bool {
        let (Some(probe), Some(of_other)) = (&self.probe, &other.probe) else {
            return false;
        };
        self.group == other.group
            && probe.function == of_other.function
            && probe.is_return != of_other.is_return
    }
}
