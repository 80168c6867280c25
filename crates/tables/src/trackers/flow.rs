//! Flows between slices.

use rustc_hash::FxHashMap;

use crate::schema::{ArgValue, FlowRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceTracker;

/// The key of a flow in old traces: category, name and number.
pub(crate) type OldFlow = (StringId, StringId, u64);

/// Tracks open flows.
#[derive(Debug, Default)]
pub(crate) struct FlowTracker {
    /// The last slice of each flow.
    last: FxHashMap<u64, u32>,
    /// The ids of flows of old traces.
    old: FxHashMap<OldFlow, u64>,
    old_names: FxHashMap<u64, (StringId, StringId)>,
    /// Flows that end at the next slice of a track.
    pending: FxHashMap<u32, Vec<u64>>,
}

impl FlowTracker {
    /// Returns the id of a flow of an old trace.
    pub(crate) fn of_old(&mut self, flow: OldFlow) -> u64 {
        let next = self.old.len() as u64;
        let number = *self.old.entry(flow).or_insert(next);
        self.old_names.insert(number, (flow.0, flow.1));
        number
    }

    /// Returns true if the flow has begun and not ended.
    pub(crate) fn is_active(&self, flow: u64) -> bool {
        self.last.contains_key(&flow)
    }

    /// Begins a flow at a slice.
    pub(crate) fn begin(&mut self, store: &mut Store, slice: u32, flow: u64) {
        if self.last.contains_key(&flow) {
            store.stats.add(Stat::flow_duplicate_id, 1);
            return;
        }
        self.last.insert(flow, slice);
    }

    /// Continues a flow at a slice.
    pub(crate) fn step(&mut self, store: &mut Store, slice: u32, flow: u64) {
        match self.last.insert(flow, slice) {
            Some(before) => self.push(store, before, slice, flow),
            None => {
                self.last.remove(&flow);
                store.stats.add(Stat::flow_step_without_start, 1);
            }
        }
    }

    /// Adds the end of a flow at a slice. The flow ends only if it `is_closed`.
    pub(crate) fn end(&mut self, store: &mut Store, slice: u32, flow: u64, is_closed: bool) {
        let Some(before) = self.last.get(&flow).copied() else {
            store.stats.add(Stat::flow_end_without_start, 1);
            return;
        };
        if is_closed {
            self.last.remove(&flow);
        }
        self.push(store, before, slice, flow);
    }

    /// Ends a flow at the next slice that begins on a track.
    pub(crate) fn end_at_next(&mut self, slices: &mut SliceTracker, track: u32, flow: u64) {
        self.pending.entry(track).or_default().push(flow);
        slices.watch(track);
    }

    /// Returns the innermost slice of a track, for flows of old traces.
    pub(crate) fn innermost(store: &mut Store, slices: &SliceTracker, track: u32) -> Option<u32> {
        let top = slices.top(track);
        if top.is_none() {
            store.stats.add(Stat::flow_no_enclosing_slice, 1);
        }
        top
    }

    /// Handles the next slice on a watched track.
    pub(crate) fn slice_began(&mut self, store: &mut Store, track: u32, slice: u32) {
        for flow in self.pending.remove(&track).unwrap_or_default() {
            if let Some(before) = self.last.get(&flow).copied() {
                self.insert(store, before, slice, flow);
            }
        }
    }

    fn push(&mut self, store: &mut Store, before: u32, slice: u32, flow: u64) {
        let ts = |id| store.tables.slice.ts.get(id);
        match ts(before) > ts(slice) {
            true => self.insert(store, slice, before, flow),
            false => self.insert(store, before, slice, flow),
        }
    }

    /// Connects two slices without a flow id.
    pub(crate) fn connect(store: &mut Store, slice_out: u32, slice_in: u32) {
        store.tables.flow.push(FlowRow {
            slice_out,
            slice_in,
            trace_id: None,
            arg_set_id: None,
        });
    }

    fn insert(&mut self, store: &mut Store, slice_out: u32, slice_in: u32, flow: u64) {
        let mut args = ArgSet::default();
        if let Some((category, name)) = self.old_names.get(&flow).copied() {
            args.put(store, "name", ArgValue::Text(name));
            args.put(store, "cat", ArgValue::Text(category));
        }
        let arg_set_id = args.finish(store);
        store.tables.flow.push(FlowRow {
            slice_out,
            slice_in,
            trace_id: Some(flow as i64),
            arg_set_id,
        });
    }
}
