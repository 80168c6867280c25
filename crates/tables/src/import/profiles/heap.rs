//! Heap profiles: `ProfilePacket`.

use std::mem;

use ferretto_format::sample::{MAX_FRAMES, mapping_path};
use ferretto_proto::fields::profile_packet::{heap_sample, process_heap_samples, process_stats};
use ferretto_proto::fields::{interned_string, profile_packet};
use ferretto_proto::views::{CallstackView, FrameView, MappingView};
use ferretto_wire::Fields;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::context::{Context, EventState};
use super::stacks::{SequenceStacks, hex};
use crate::schema::{HeapProfileAllocationRow, HeapProfileRow, TableId};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::clock::{self, ClockId};
use crate::trackers::stack_profile::{Mapping, SourceFrame};

/// The clock of dumps.
const MONOTONIC_COARSE: u32 = 4;
/// The heap of Android's runtime, whose frees are unknown.
const ART: &str = "com.android.art";

/// The heap profiles of all sequences.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    sequences: FxHashMap<u32, Dumps>,
    /// The windows with a row: process, end and heap.
    windows: FxHashSet<(u32, i64, StringId)>,
    /// The totals of allocations and frees up to the last dump.
    totals: FxHashMap<TotalKey, Totals>,
}

/// Sequence, process, heap and iid of the callstack.
type TotalKey = (u32, u32, StringId, u64);

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    allocated: u64,
    allocations: u64,
    freed: u64,
    frees: u64,
}

/// The dumps of a sequence.
#[derive(Debug, Default)]
struct Dumps {
    last_index: Option<u64>,
    /// The samples of an incomplete dump.
    waiting: Vec<Sample>,
    old: OldStacks,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    ts: i64,
    upid: u32,
    heap: StringId,
    callstack: u64,
    totals: Totals,
}

impl Heaps {
    /// Reads a `ProfilePacket`.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        bytes: &[u8],
        state: EventState<'_>,
        stacks: &mut SequenceStacks,
    ) {
        let dumps = self.sequences.entry(state.state.sequence).or_default();
        let find = |number| Fields::find(number, bytes).and_then(|field| field.as_u64());
        let index = find(profile_packet::INDEX).unwrap_or(0);
        let expected = dumps.last_index.map_or(0, |last| last.wrapping_add(1));
        if index != expected {
            cx.store.stats.add(Stat::heapprofd_missing_packet, 1);
        }
        dumps.last_index = Some(index);
        dumps.old.read(cx, bytes);
        let fields = Fields::new(bytes).map_while(Result::ok);
        for process in fields.filter(|field| field.number == profile_packet::PROCESS_DUMPS) {
            let process = process.as_bytes().unwrap_or_default();
            dump(cx, ts, process, &mut self.windows, &mut dumps.waiting);
        }
        let is_continued = find(profile_packet::CONTINUED).is_some_and(|value| value != 0);
        if !is_continued {
            let samples = mem::take(&mut dumps.waiting);
            for sample in samples {
                let callsite = match dumps.old.callstacks.get(&sample.callstack) {
                    Some(callsite) => Some(*callsite),
                    None => stacks.callstack(cx, state, Some(sample.upid), sample.callstack),
                };
                if let Some(callsite) = callsite {
                    let sequence = state.state.sequence;
                    add(cx, &mut self.totals, sequence, sample, callsite);
                }
            }
            dumps.old = OldStacks::default();
        }
    }

    /// Handles the end of the trace. Incomplete dumps are dropped.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        let unfinished = self
            .sequences
            .values()
            .filter(|dumps| !dumps.waiting.is_empty());
        let unfinished = unfinished.count() as i64;
        cx.store
            .stats
            .add(Stat::heapprofd_non_finalized_profile, unfinished);
    }
}

/// Adds the allocations and frees since the last dump.
fn add(
    cx: &mut Context,
    totals: &mut FxHashMap<TotalKey, Totals>,
    sequence: u32,
    sample: Sample,
    callsite_id: u32,
) {
    let key = (sequence, sample.upid, sample.heap, sample.callstack);
    let last = totals.entry(key).or_default();
    let now = sample.totals;
    let difference = |now: u64, last: u64| now.checked_sub(last).map(|count| count as i64);
    let since = (|| {
        Some((
            (
                difference(now.allocations, last.allocations)?,
                difference(now.allocated, last.allocated)?,
            ),
            (
                difference(now.frees, last.frees)?,
                difference(now.freed, last.freed)?,
            ),
        ))
    })();
    let Some((allocated, freed)) = since else {
        cx.store
            .stats
            .add_indexed(Stat::heapprofd_malformed_packet, sample.upid.into(), 1);
        return;
    };
    *last = now;
    let has_frees = cx.store.strings.text(sample.heap) != ART;
    if !cx.store.wants(TableId::heap_profile_allocation) {
        return;
    }
    let mut push = |(count, size): (i64, i64)| {
        if count != 0 || size != 0 {
            cx.store
                .tables
                .heap_profile_allocation
                .push(HeapProfileAllocationRow {
                    ts: sample.ts,
                    upid: sample.upid,
                    heap_name: sample.heap,
                    callsite_id,
                    count,
                    size,
                });
        }
    };
    push(allocated);
    if has_frees {
        push((freed.0.wrapping_neg(), freed.1.wrapping_neg()));
    }
}

/// Reads a `ProcessHeapSamples`.
fn dump(
    cx: &mut Context,
    ts: i64,
    bytes: &[u8],
    windows: &mut FxHashSet<(u32, i64, StringId)>,
    waiting: &mut Vec<Sample>,
) {
    use process_heap_samples as of;
    let (mut pid, mut end, mut start) = (0, 0, None);
    let (mut heap, mut stats) = (&[][..], &[][..]);
    let mut flags = Flags::default();
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0);
        match field.number {
            of::PID => pid = number as u32,
            of::TIMESTAMP => end = number as i64,
            of::START_TIMESTAMP => start = Some(number as i64),
            of::HEAP_NAME => heap = field.as_bytes().unwrap_or_default(),
            of::STATS => stats = field.as_bytes().unwrap_or_default(),
            of::DISCONNECTED => flags.disconnected = number != 0,
            of::BUFFER_CORRUPTED => flags.corrupted = number != 0,
            of::BUFFER_OVERRAN => flags.overran = number != 0,
            of::REJECTED_CONCURRENT => flags.rejected = number != 0,
            of::HIT_GUARDRAIL => flags.guardrail = number != 0,
            of::CLIENT_ERROR => flags.error = number as i64,
            of::SAMPLING_INTERVAL_BYTES => flags.interval = number,
            of::ORIG_SAMPLING_INTERVAL_BYTES => flags.first_interval = number,
            _ => {}
        }
    }
    let Some(end) = to_trace(cx, end) else {
        return;
    };
    let start = start.and_then(|start| to_trace(cx, start)).unwrap_or(end);
    cx.store
        .stats
        .set_indexed(Stat::heapprofd_last_profile_timestamp, pid.into(), ts);
    let heap_name = match heap {
        [] => StringId::NULL,
        name => cx.store.strings.intern_bytes(name),
    };
    let upid = cx.processes.process(&mut cx.store, pid.into());
    if windows.insert((upid, end, heap_name)) {
        cx.store.tables.heap_profile.push(HeapProfileRow {
            ts: start,
            ts_end: end,
            dur: end.wrapping_sub(start),
            upid,
            heap_name,
        });
    }
    flags.count(cx, pid.into());
    let unwinding = |field| {
        Fields::find(field, stats)
            .and_then(|f| f.as_u64())
            .unwrap_or(0) as i64
    };
    for (stat, field) in [
        (
            Stat::heapprofd_unwind_time_us,
            process_stats::TOTAL_UNWINDING_TIME_US,
        ),
        (Stat::heapprofd_unwind_samples, process_stats::HEAP_SAMPLES),
        (
            Stat::heapprofd_client_spinlock_blocked,
            process_stats::CLIENT_SPINLOCK_BLOCKED_US,
        ),
    ] {
        cx.store
            .stats
            .add_indexed(stat, pid.into(), unwinding(field));
    }
    let heap = match heap_name {
        StringId::NULL => cx.store.strings.intern("unknown"),
        name => name,
    };
    let fields = Fields::new(bytes).map_while(Result::ok);
    for sample in fields.filter(|field| field.number == of::SAMPLES) {
        let sample = sample.as_bytes().unwrap_or_default();
        let (callstack, totals) = read_sample(sample, flags.first_interval > 0);
        waiting.push(Sample {
            ts: end,
            upid,
            heap,
            callstack,
            totals,
        });
    }
}

/// The result of the profile of a process.
#[derive(Debug, Default)]
struct Flags {
    disconnected: bool,
    corrupted: bool,
    overran: bool,
    rejected: bool,
    guardrail: bool,
    error: i64,
    interval: u64,
    first_interval: u64,
}

impl Flags {
    fn count(&self, cx: &mut Context, pid: i64) {
        const TIMEOUT: i64 = 1;
        let stats = &mut cx.store.stats;
        for (stat, is_set) in [
            (Stat::heapprofd_client_disconnected, self.disconnected),
            (Stat::heapprofd_buffer_corrupted, self.corrupted),
            (
                Stat::heapprofd_buffer_overran,
                self.overran || self.error == TIMEOUT,
            ),
            (Stat::heapprofd_rejected_concurrent, self.rejected),
            (Stat::heapprofd_hit_guardrail, self.guardrail),
        ] {
            if is_set {
                stats.add_indexed(stat, pid, 1);
            }
        }
        if self.error != 0 {
            stats.set_indexed(Stat::heapprofd_client_error, pid, self.error);
        }
        if self.first_interval != 0 {
            let raised = self.interval.wrapping_sub(self.first_interval) as i64;
            stats.set_indexed(Stat::heapprofd_sampling_interval_adjusted, pid, raised);
        }
    }
}

/// Reads a `HeapSample`. Early profilers reported wrong allocation counts for the maximum heap.
fn read_sample(bytes: &[u8], has_max_count: bool) -> (u64, Totals) {
    use heap_sample as of;
    let mut callstack = 0;
    let mut totals = Totals::default();
    let (mut max, mut max_count) = (None, 0);
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0);
        match field.number {
            of::CALLSTACK_ID => callstack = number,
            of::SELF_ALLOCATED => totals.allocated = number,
            of::SELF_FREED => totals.freed = number,
            of::ALLOC_COUNT => totals.allocations = number,
            of::FREE_COUNT => totals.frees = number,
            of::SELF_MAX => max = Some(number),
            of::SELF_MAX_COUNT => max_count = number,
            _ => {}
        }
    }
    if let Some(max) = max {
        totals = Totals {
            allocated: max,
            allocations: if has_max_count { max_count } else { 0 },
            ..Totals::default()
        };
    }
    (callstack, totals)
}

fn to_trace(cx: &mut Context, value: i64) -> Option<i64> {
    let clock = ClockId::of_machine(cx.store.machine, MONOTONIC_COARSE);
    match cx.clocks.trace_time(clock, value) {
        Ok(ts) => Some(ts),
        Err(error) => {
            let trace = cx.clocks.trace_clock();
            clock::log(error, &mut cx.store, clock, value, trace, None);
            None
        }
    }
}

/// Interned data inside of the packet, as written by early profilers.
#[derive(Debug, Default)]
struct OldStacks {
    strings: FxHashMap<u64, Box<[u8]>>,
    mappings: FxHashMap<u64, u32>,
    frames: FxHashMap<u64, u32>,
    callstacks: FxHashMap<u64, u32>,
}

impl OldStacks {
    fn read(&mut self, cx: &mut Context, bytes: &[u8]) {
        let all = |number| {
            let fields = Fields::new(bytes).map_while(Result::ok);
            let fields = fields.filter(move |field| field.number == number);
            fields.filter_map(|field| field.as_bytes())
        };
        for bytes in all(profile_packet::STRINGS) {
            let text = Fields::find(interned_string::STR, bytes);
            let text = text.and_then(|text| text.as_bytes()).unwrap_or_default();
            self.strings
                .insert(number(bytes, interned_string::IID), text.into());
        }
        for bytes in all(profile_packet::MAPPINGS) {
            let encoded = MappingView::read(bytes);
            let Some(mapping) = self.mapping(cx, &encoded) else {
                cx.store.stats.add(Stat::stackprofile_invalid_string_id, 1);
                continue;
            };
            self.mappings.insert(encoded.iid.unwrap_or(0), mapping);
        }
        for bytes in all(profile_packet::FRAMES) {
            let frame = FrameView::read(bytes);
            let Some(mapping) = self.mappings.get(&frame.mapping_id.unwrap_or(0)) else {
                cx.store.stats.add(Stat::stackprofile_invalid_mapping_id, 1);
                continue;
            };
            let Some(name) = self.string(frame.function_name_id.unwrap_or(0)) else {
                cx.store.stats.add(Stat::stackprofile_invalid_string_id, 1);
                continue;
            };
            let source = SourceFrame {
                function: cx.store.strings.intern_bytes(name),
                file: StringId::NULL,
                line: None,
            };
            let rel_pc = frame.rel_pc.unwrap_or(0) as i64;
            let row = cx.stacks.frame(&mut cx.store, *mapping, rel_pc, source);
            self.frames.insert(frame.iid.unwrap_or(0), row);
        }
        for bytes in all(profile_packet::CALLSTACKS) {
            let callstack = CallstackView::read(bytes);
            let frames = callstack.frame_ids.iter().take(MAX_FRAMES);
            let frames: Option<Vec<_>> = frames.map(|iid| self.frames.get(&iid).copied()).collect();
            let Some(frames) = frames else {
                cx.store.stats.add(Stat::stackprofile_invalid_frame_id, 1);
                continue;
            };
            match cx.store.callstack(frames) {
                Some(callsite) => {
                    self.callstacks.insert(callstack.iid.unwrap_or(0), callsite);
                }
                None => cx.store.stats.add(Stat::stackprofile_empty_callstack, 1),
            }
        }
    }

    fn string(&self, iid: u64) -> Option<&[u8]> {
        match iid {
            0 => Some(&[]),
            iid => self.strings.get(&iid).map(|text| &**text),
        }
    }

    fn mapping(&self, cx: &mut Context, mapping: &MappingView<'_>) -> Option<u32> {
        let build_id = self.string(mapping.build_id.unwrap_or(0))?;
        let number = |value: Option<u64>| value.unwrap_or(0) as i64;
        let parts = mapping.path_string_ids.iter();
        let path = mapping_path(parts.map(|part| self.string(part)));
        if path.lacks_part {
            cx.store.stats.add(Stat::stackprofile_invalid_string_id, 1);
        }
        let of = Mapping {
            build_id: cx.store.strings.intern(&hex(build_id)),
            name: cx.store.strings.intern_bytes(&path.path),
            exact_offset: number(mapping.exact_offset),
            start_offset: number(mapping.start_offset),
            start: number(mapping.start),
            end: number(mapping.end),
            load_bias: number(mapping.load_bias),
        };
        Some(cx.stacks.mapping(&mut cx.store, of))
    }
}

fn number(bytes: &[u8], field: u32) -> u64 {
    Fields::find(field, bytes)
        .and_then(|field| field.as_u64())
        .unwrap_or(0)
}
