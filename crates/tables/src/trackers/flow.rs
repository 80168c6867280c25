//! Flows between slices.

use ferretto_format::Fnv1a;
use rustc_hash::FxHashMap;

use crate::schema::{ArgValue, FlowRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::{StringId, StringPool};
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceTracker;

/// The key of a flow in old traces: category, name and number.
pub(crate) type OldFlow = (StringId, StringId, u64);

/// The effect of an event on a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowStep {
    /// The flow begins, or continues from here.
    Begin,
    /// The flow continues from here if it has begun.
    Continue,
    /// The flow leads here, and continues from its last slice.
    Branch,
    /// The flow leads here, and ends.
    End,
}

/// An event of a flow that has no slice before it in the trace. There may be one in an earlier
/// part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnd {
    /// The flow, the same number in all parts of a trace.
    pub flow: u64,
    /// The slice.
    pub slice: u32,
    /// The time of the event.
    pub ts: i64,
    /// The effect on the flow.
    pub step: FlowStep,
}

/// The ends of flows that are not connected within a trace, for readers of a trace in parts.
#[derive(Debug, Default)]
pub struct FlowEnds {
    /// The events without a slice before them, in order of time.
    pub first: Vec<FlowEnd>,
    /// The flows that are open at the end of the trace, with their last slices, in order of flows.
    pub last: Vec<(u64, u32)>,
}

/// Tracks open flows.
#[derive(Debug, Default)]
pub(crate) struct FlowTracker {
    /// The events without a slice before them, if they are wanted.
    first: Option<Vec<FlowEnd>>,
    /// The last slice of each flow.
    last: FxHashMap<u64, u32>,
    /// The ids of flows of old traces.
    old: FxHashMap<OldFlow, u64>,
    old_names: FxHashMap<u64, (StringId, StringId)>,
    /// Flows that end at the next slice of a track.
    pending: FxHashMap<u32, Vec<u64>>,
}

impl FlowTracker {
    /// Creates a tracker. It keeps [`FlowEnds`] if they are wanted.
    pub(crate) fn new(has_ends: bool) -> Self {
        Self {
            first: has_ends.then(Vec::new),
            ..Self::default()
        }
    }

    /// Returns the unconnected ends, if they are wanted.
    pub(crate) fn into_ends(mut self, strings: &StringPool) -> FlowEnds {
        let Some(mut first) = self.first.take() else {
            return FlowEnds::default();
        };
        let numbers: FxHashMap<u64, u64> = self
            .old
            .iter()
            .map(|((category, name, id), number)| {
                let key = Fnv1a::new()
                    .update(strings.text(*category).as_bytes())
                    .update(b"\0")
                    .update(strings.text(*name).as_bytes())
                    .update(&id.to_ne_bytes());
                (*number, key.finish())
            })
            .collect();
        let of = |flow: u64| numbers.get(&flow).copied().unwrap_or(flow);
        for end in &mut first {
            end.flow = of(end.flow);
        }
        let last = self.last.into_iter();
        let mut last: Vec<_> = last.map(|(flow, slice)| (of(flow), slice)).collect();
        last.sort_unstable();
        FlowEnds { first, last }
    }

    fn keep_first(&mut self, slice: u32, ts: i64, flow: u64, step: FlowStep) {
        if let Some(first) = &mut self.first {
            first.push(FlowEnd {
                flow,
                slice,
                ts,
                step,
            });
        }
    }

    /// Returns the id of a flow of an old trace.
    pub(crate) fn of_old(&mut self, flow: OldFlow) -> u64 {
        let next = self.old.len() as u64;
        let number = *self.old.entry(flow).or_insert(next);
        self.old_names.insert(number, (flow.0, flow.1));
        number
    }

    /// Begins a flow at a slice, or continues it if it has begun.
    pub(crate) fn follow(&mut self, store: &mut Store, ts: i64, slice: u32, flow: u64) {
        if self.last.contains_key(&flow) {
            self.step(store, ts, slice, flow)
        } else {
            self.begin(store, ts, slice, flow)
        }
    }

    /// Begins a flow at a slice.
    pub(crate) fn begin(&mut self, store: &mut Store, ts: i64, slice: u32, flow: u64) {
        if self.last.contains_key(&flow) {
            store.stats.add(Stat::flow_duplicate_id, 1);
            return;
        }
        self.keep_first(slice, ts, flow, FlowStep::Begin);
        self.last.insert(flow, slice);
    }

    /// Continues a flow at a slice.
    pub(crate) fn step(&mut self, store: &mut Store, ts: i64, slice: u32, flow: u64) {
        match self.last.get_mut(&flow) {
            Some(last) => {
                let before = std::mem::replace(last, slice);
                self.push(store, before, slice, flow);
            }
            None => {
                self.keep_first(slice, ts, flow, FlowStep::Continue);
                store.stats.add(Stat::flow_step_without_start, 1);
            }
        }
    }

    /// Adds the end of a flow at a slice. The flow stays open.
    pub(crate) fn end(&mut self, store: &mut Store, ts: i64, slice: u32, flow: u64) {
        match self.last.get(&flow).copied() {
            Some(before) => self.push(store, before, slice, flow),
            None => {
                self.keep_first(slice, ts, flow, FlowStep::Branch);
                store.stats.add(Stat::flow_end_without_start, 1);
            }
        }
    }

    /// Ends a flow at a slice, if it has begun.
    pub(crate) fn terminate(&mut self, store: &mut Store, ts: i64, slice: u32, flow: u64) {
        match self.last.remove(&flow) {
            Some(before) => self.push(store, before, slice, flow),
            None => self.keep_first(slice, ts, flow, FlowStep::End),
        }
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
            match self.last.get(&flow).copied() {
                Some(before) => self.insert(store, before, slice, flow),
                None => {
                    let ts = store.tables.slice.ts.get(slice);
                    self.keep_first(slice, ts, flow, FlowStep::Branch);
                }
            }
        }
    }

    fn push(&mut self, store: &mut Store, before: u32, slice: u32, flow: u64) {
        let ts = |id| store.tables.slice.ts.get(id);
        if ts(before) > ts(slice) {
            self.insert(store, slice, before, flow)
        } else {
            self.insert(store, before, slice, flow)
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
