//! The state that topics share while they parse.

use super::sequence::{Sequences, State};
use ferretto_format::clock_graph::ClockGraph;

use crate::options::Options;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::clock;
use crate::trackers::counter::{CounterTracker, StateTracker};
use crate::trackers::flow::FlowTracker;
use crate::trackers::gpu_work::GpuWorkTracker;
use crate::trackers::kernel::KernelTracker;
use crate::trackers::lane::LaneTracker;
use crate::trackers::machine::{CpuTracker, GpuTracker, MachineTracker};
use crate::trackers::metadata::MetadataTracker;
use crate::trackers::process::ProcessTracker;
use crate::trackers::sched::SchedTracker;
use crate::trackers::slice::SliceTracker;
use crate::trackers::stack_profile::StackProfileTracker;
use crate::trackers::thread_counter::ThreadCounterTracker;
use crate::trackers::track::TrackTracker;
use crate::trackers::translation::TranslationTracker;

/// The tables, and the state of trackers.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) machines: MachineTracker,
    pub(crate) cpus: CpuTracker,
    pub(crate) gpus: GpuTracker,
    pub(crate) kernels: KernelTracker,
    pub(crate) clocks: ClockGraph,
    pub(crate) processes: ProcessTracker,
    pub(crate) tracks: TrackTracker,
    pub(crate) lanes: LaneTracker,
    pub(crate) sched: SchedTracker,
    pub(crate) thread_counters: ThreadCounterTracker,
    pub(crate) slices: SliceTracker,
    pub(crate) counters: CounterTracker,
    pub(crate) states: StateTracker,
    pub(crate) flows: FlowTracker,
    pub(crate) gpu_work: GpuWorkTracker,
    pub(crate) metadata: MetadataTracker,
    pub(crate) stacks: StackProfileTracker,
    pub(crate) translations: TranslationTracker,
}

impl Context {
    /// Creates an empty context.
    pub(crate) fn new(store: Store, options: &Options) -> Self {
        Self {
            store,
            machines: MachineTracker::default(),
            cpus: CpuTracker::default(),
            gpus: GpuTracker::default(),
            kernels: KernelTracker::default(),
            clocks: ClockGraph::default(),
            processes: ProcessTracker::default(),
            tracks: TrackTracker::default(),
            lanes: LaneTracker::default(),
            sched: SchedTracker::default(),
            thread_counters: ThreadCounterTracker::default(),
            slices: SliceTracker::default(),
            counters: CounterTracker,
            states: StateTracker::default(),
            gpu_work: GpuWorkTracker::default(),
            flows: FlowTracker::new(options.is_part),
            metadata: MetadataTracker,
            stacks: StackProfileTracker::default(),
            translations: TranslationTracker::default(),
        }
    }

    /// Writes the collected data into the tables.
    pub(crate) fn finish(&mut self) {
        clock::write(&mut self.clocks, &mut self.store);
        self.slices.finish(&mut self.store);
        self.states.finish(&mut self.store);
        self.thread_counters
            .finish(&mut self.store, &mut self.tracks);
        self.processes.finish(&mut self.store);
    }
}

/// The incremental state of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventState<'a> {
    pub(crate) sequences: &'a Sequences,
    pub(crate) state: &'a State,
}

impl<'a> EventState<'a> {
    /// Returns an interned text.
    #[inline]
    pub(crate) fn text(&self, table: u32, iid: u64) -> Option<StringId> {
        self.sequences.text(self.state, table, iid)
    }

    /// Returns an encoded interned message.
    pub(crate) fn message(&self, table: u32, iid: u64) -> Option<&'a [u8]> {
        self.sequences.message(self.state, table, iid)
    }
}
