//! Flows from one part of a trace to the next.

use std::collections::{BTreeMap, HashMap};

use super::tracks::Shown;

/// The maximum number of open flows. Many programs never end their flows.
const MAX_OPEN: usize = 1 << 17;

/// An end of a flow: a time on a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowEnd {
    pub(super) at: Shown,
    pub(super) ts: i64,
}

/// The open flows of earlier parts.
#[derive(Debug, Default)]
pub(super) struct OpenFlows {
    /// The last end of each flow, and its number in the order of insertion.
    ends: HashMap<u64, (u64, FlowEnd)>,
    /// The flows by number.
    order: BTreeMap<u64, u64>,
    next: u64,
    /// The number of flows that were dropped to limit the memory.
    dropped: u64,
}

impl OpenFlows {
    /// Returns the last end of a flow.
    pub(super) fn get(&self, flow: u64) -> Option<FlowEnd> {
        self.ends.get(&flow).map(|(_, end)| *end)
    }

    /// Removes a flow, and returns its last end.
    pub(super) fn remove(&mut self, flow: u64) -> Option<FlowEnd> {
        let (number, end) = self.ends.remove(&flow)?;
        self.order.remove(&number);
        Some(end)
    }

    /// Keeps the last end of a flow, and drops the oldest flow if there are too many.
    pub(super) fn insert(&mut self, flow: u64, end: FlowEnd) {
        self.remove(flow);
        self.ends.insert(flow, (self.next, end));
        self.order.insert(self.next, flow);
        self.next += 1;
        if self.ends.len() > MAX_OPEN
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.ends.remove(&oldest);
            self.dropped += 1;
        }
    }

    /// Returns the number of dropped flows.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_too_many_flows_are_dropped() {
        let mut flows = OpenFlows::default();
        let end = |ts| FlowEnd { at: (1, 1), ts };
        let most = MAX_OPEN as u64;
        for flow in 0..most {
            flows.insert(flow, end(0));
        }
        flows.insert(0, end(1));
        assert_eq!(flows.dropped(), 0);
        flows.insert(most, end(2));
        assert_eq!(flows.dropped(), 1);
        assert_eq!(flows.get(0), Some(end(1)));
        assert_eq!(flows.get(1), None);
        assert_eq!(flows.remove(most), Some(end(2)));
        assert_eq!(flows.remove(most), None);
    }
}
