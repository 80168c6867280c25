//! Profiles: samples with callstacks, heap profiles, and symbols.

mod contexts;
mod deobfuscation;
mod heap;
mod heap_graph;
mod perf;
mod smaps;
mod stack_sample;
mod stacks;
mod symbols;

use ferretto_format::CpuMode;
use ferretto_proto::fields::trace_packet as field;

pub(super) use self::stack_sample::inline_callstack;

use self::contexts::Contexts;
use self::deobfuscation::Names;
use self::heap::Heaps;
use self::heap_graph::{HEAP_GRAPH, HeapGraphs, ProcessMetadata};
use self::perf::PerfSessions;
use self::stack_sample::StackSamples;
use self::stacks::SequenceStacks;
use super::context::{Context, EventState};
use crate::stats::Stat;

/// The state of all profiles.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    stacks: SequenceStacks,
    contexts: Contexts,
    perf: PerfSessions,
    samples: StackSamples,
    heaps: Heaps,
    heap_graphs: HeapGraphs,
    process_metadata: ProcessMetadata,
    /// Encoded `DeobfuscationMapping`s, which are used at the end.
    mappings: Vec<Box<[u8]>>,
}

/// The context of a sample: its time and references.
#[derive(Debug)]
struct Sampling<'a> {
    cx: &'a mut Context,
    ts: i64,
    state: EventState<'a>,
    stacks: &'a mut SequenceStacks,
    contexts: &'a mut Contexts,
}

/// Returns the name of a CPU's mode.
fn mode_name(mode: CpuMode) -> Option<&'static str> {
    match mode {
        CpuMode::Unknown => None,
        CpuMode::Kernel => Some("kernel"),
        CpuMode::User => Some("user"),
        CpuMode::Hypervisor => Some("hypervisor"),
        CpuMode::GuestKernel => Some("guest_kernel"),
        CpuMode::GuestUser => Some("guest_user"),
    }
}

impl Profiles {
    /// Returns true if this field of `TracePacket` belongs to profiles and is parsed in the order
    /// of time.
    pub(super) fn has(field: u32) -> bool {
        matches!(
            field,
            field::PERF_SAMPLE
                | field::STACK_SAMPLE
                | field::PROFILE_PACKET
                | field::SMAPS_PACKET
                | field::MODULE_SYMBOLS
                | field::DEOBFUSCATION_MAPPING
                | field::ART_PROCESS_METADATA
                | HEAP_GRAPH
        )
    }

    /// Parses a packet.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        number: u32,
        bytes: &[u8],
        state: EventState<'_>,
    ) {
        match number {
            field::PERF_SAMPLE | field::STACK_SAMPLE => {
                let sampling = Sampling {
                    cx,
                    ts,
                    state,
                    stacks: &mut self.stacks,
                    contexts: &mut self.contexts,
                };
                match number {
                    field::PERF_SAMPLE => self.perf.parse(sampling, bytes),
                    _ => self.samples.parse(sampling, bytes),
                }
            }
            field::PROFILE_PACKET => self.heaps.parse(cx, ts, bytes, state, &mut self.stacks),
            field::SMAPS_PACKET => smaps::parse(cx, ts, bytes),
            field::MODULE_SYMBOLS => symbols::parse(cx, bytes),
            field::DEOBFUSCATION_MAPPING => self.mappings.push(bytes.into()),
            field::ART_PROCESS_METADATA => self.process_metadata.parse(cx, ts, bytes),
            HEAP_GRAPH => self.heap_graphs.parse(cx, ts, bytes, state.state.sequence),
            _ => {}
        }
    }

    /// Returns the callsite of an interned callstack in a process.
    pub(super) fn callstack(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        upid: Option<u32>,
        iid: u64,
    ) -> Option<u32> {
        self.stacks.callstack(cx, state, upid, iid)
    }

    /// Writes the collected data into the tables.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        self.heaps.finish(cx);
        self.heap_graphs.finish(cx);
        if !self.mappings.is_empty() {
            let names = Names::new(&cx.store, &self.mappings);
            deobfuscation::deobfuscate_frames(&mut cx.store, &names);
            heap_graph::deobfuscate(&mut cx.store, &names);
        }
        count_temporary(cx);
    }
}

/// Counts the programs in Android's folder for temporary files that have no build ID, so that their
/// symbols cannot be found.
fn count_temporary(cx: &mut Context) {
    const FOLDER: &str = "/data/local/tmp/";
    let store = &mut cx.store;
    let table = &store.tables.stack_profile_mapping;
    let is_nameless = |row: &u32| {
        let text = |id| store.strings.text(id);
        text(table.name.get(*row)).starts_with(FOLDER) && text(table.build_id.get(*row)).is_empty()
    };
    let count = (0..table.len()).filter(is_nameless).count();
    if count > 0 {
        let stat = Stat::symbolization_tmp_build_id_not_found;
        store.stats.add(stat, count as i64);
    }
}
