//! Flows between work of GPUs, and the slices that submit it and wait for it.

use rustc_hash::FxHashMap;

use crate::store::Store;
use crate::trackers::flow::FlowTracker;

/// The slices of work of GPUs, by the ids of the work.
#[derive(Debug, Default)]
pub(crate) struct GpuWorkTracker {
    executed: FxHashMap<u64, Vec<u32>>,
    /// The track events that submitted work, and that waited for it.
    submitted: FxHashMap<u64, u32>,
    awaited: FxHashMap<u64, u32>,
    /// The slices of other work that waits.
    waiting: FxHashMap<u64, Vec<u32>>,
}

impl GpuWorkTracker {
    /// Adds a slice with the execution of work.
    pub(crate) fn executed(&mut self, store: &mut Store, id: u64, slice: u32) {
        self.executed.entry(id).or_default().push(slice);
        if let Some(before) = self.submitted.get(&id) {
            FlowTracker::connect(store, *before, slice);
        }
        if let Some(after) = self.awaited.get(&id) {
            FlowTracker::connect(store, slice, *after);
        }
        for after in self.waiting.get(&id).into_iter().flatten() {
            FlowTracker::connect(store, slice, *after);
        }
    }

    /// Adds a slice of work that waits for other work.
    pub(crate) fn waited(&mut self, store: &mut Store, id: u64, slice: u32) {
        for before in self.executed.get(&id).into_iter().flatten() {
            FlowTracker::connect(store, *before, slice);
        }
        self.waiting.entry(id).or_default().push(slice);
    }

    /// Adds a track event that submits work.
    pub(crate) fn submit(&mut self, store: &mut Store, id: u64, slice: u32) {
        self.submitted.insert(id, slice);
        for after in self.executed.get(&id).into_iter().flatten() {
            FlowTracker::connect(store, slice, *after);
        }
    }

    /// Adds a track event that waits for work.
    pub(crate) fn await_end(&mut self, store: &mut Store, id: u64, slice: u32) {
        self.awaited.insert(id, slice);
        for before in self.executed.get(&id).into_iter().flatten() {
            FlowTracker::connect(store, *before, slice);
        }
    }
}
