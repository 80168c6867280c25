//! Heap dumps: the allocations of a process, by callstack.

use std::collections::{HashMap, HashSet};

use ferretto_format::heap_sample::{PEAK, PEAK_COUNT};
use ferretto_proto::fields::profile_packet;
use ferretto_proto::fields::profile_packet::{heap_sample, process_heap_samples};
use ferretto_wire::Fields;

use super::counts::{Count, Selection, StackCounts, StackKey};
use super::interned::Interned;
use super::problem::Problems;
use super::session::SessionId;
use super::tables::{StackId, Tables};
use super::{Profile, Value};
use crate::limits::Budget;
use crate::printable::printable;

/// A dump without its rows.
const DUMP_BYTES: usize = 512;
/// Bytes counted for a row, and for its copy in results.
const ROW_BYTES: usize = 2 * size_of::<(StackId, HeapCount)>();

/// The samples of one callstack in a dump, from the start of the recording on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapCount {
    /// Bytes and allocations.
    pub allocated: Count,
    /// Bytes and allocations that were freed.
    pub freed: Count,
    /// Bytes and allocations when most was allocated.
    pub peak: Count,
}

impl HeapCount {
    /// Returns the memory allocated and not freed.
    pub fn leaked(&self) -> Count {
        Count {
            samples: self.allocated.samples.saturating_sub(self.freed.samples),
            weight: self.allocated.weight.saturating_sub(self.freed.weight),
        }
    }

    /// One of the views.
    pub fn view(&self, view: HeapView) -> Count {
        match view {
            HeapView::Leaked => self.leaked(),
            HeapView::Allocated => self.allocated,
            HeapView::Peak => self.peak,
        }
    }
}

/// A view of a heap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HeapView {
    /// The memory that is allocated and not freed.
    #[default]
    Leaked,
    /// All that was allocated.
    Allocated,
    /// The memory that was allocated when that was most.
    Peak,
}

/// A dump of a heap of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapDump {
    /// The machine.
    pub machine: u32,
    /// The process.
    pub pid: i32,
    /// The heap, such as `libc.malloc`.
    pub heap: String,
    /// When it was written, in nanoseconds of boot time.
    pub time: u64,
    /// Mean bytes between two samples.
    pub interval: u64,
    /// Samples were lost, as the ring was full.
    pub has_overrun: bool,
    /// The client wrote malformed records.
    pub is_corrupt: bool,
    /// The profiler ended itself, as it took too much.
    pub hit_guardrail: bool,
    /// Another recording had the process.
    pub is_rejected: bool,
    rows: Vec<(StackId, HeapCount)>,
    /// The rows that the file has; those behind it are as in the dump before.
    written: usize,
}

impl HeapDump {
    /// The callstacks, in the order of the file. Upstream's profiler leaves out those of which all
    /// was freed before the last dump; they are added at the end.
    pub fn rows(&self) -> &[(StackId, HeapCount)] {
        &self.rows
    }

    /// Adds up the dump.
    pub fn total(&self) -> HeapCount {
        let mut total = HeapCount::default();
        for (_, row) in &self.rows {
            total.allocated.add(row.allocated);
            total.freed.add(row.freed);
            total.peak.add(row.peak);
        }
        total
    }

    /// The properties by which heaps are told apart.
    pub(crate) fn key(&self) -> (u32, i32, &str) {
        (self.machine, self.pid, &self.heap)
    }
}

/// The choice of a dump of each heap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DumpChoice {
    /// The last one, or the last before the end of the selection.
    #[default]
    Last,
    /// The one with this number, counted from 1; the last if there are fewer.
    Number(usize),
}

/// Names a heap of one [`Profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeapId(u32);

/// Reads `ProfilePacket`s.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    pub(super) dumps: Vec<HeapDump>,
}

/// The dumps of a sequence.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// Those that the next packet may continue, by their place among all.
    open: Vec<usize>,
    ended: HashMap<(i32, String), Ended>,
}

/// The dumps of a heap so far.
#[derive(Debug, Default)]
struct Ended {
    /// The place of the last one.
    last: usize,
    /// The counts of callstacks that were left out, and then counted from 0 again.
    before: HashMap<StackId, HeapCount>,
}

/// The tables that a packet is read by.
pub(super) struct Context<'a> {
    pub(super) interned: &'a mut Interned,
    pub(super) tables: &'a mut Tables,
    pub(super) problems: &'a mut Problems,
    pub(super) budget: &'a Budget,
    pub(super) chain: &'a mut Chain,
    pub(super) machine: u32,
    pub(super) time: u64,
}

impl Heaps {
    pub(super) fn read(&mut self, packet: &[u8], context: &mut Context<'_>) {
        let is_continued = Fields::find(profile_packet::CONTINUED, packet);
        let is_continued = is_continued.and_then(|field| field.as_u64()) == Some(1);
        let parts = Fields::new(packet).map_while(Result::ok);
        for part in parts.filter(|part| part.number == profile_packet::PROCESS_DUMPS) {
            self.dump(part.as_bytes().unwrap_or_default(), context);
        }
        if !is_continued {
            for at in std::mem::take(&mut context.chain.open) {
                self.complete(at, context);
            }
        }
    }

    fn dump(&mut self, bytes: &[u8], context: &mut Context<'_>) {
        let mut dump = HeapDump {
            machine: context.machine,
            time: context.time,
            ..HeapDump::default()
        };
        for field in Fields::new(bytes).map_while(Result::ok) {
            let number = field.as_u64().unwrap_or(0);
            match field.number {
                process_heap_samples::PID => dump.pid = number as i32,
                process_heap_samples::HEAP_NAME => {
                    dump.heap = printable(field.as_bytes().unwrap_or_default());
                }
                process_heap_samples::SAMPLING_INTERVAL_BYTES => dump.interval = number,
                process_heap_samples::BUFFER_OVERRAN => dump.has_overrun |= number != 0,
                process_heap_samples::CLIENT_ERROR => dump.has_overrun |= number == 1,
                process_heap_samples::BUFFER_CORRUPTED => dump.is_corrupt = number != 0,
                process_heap_samples::HIT_GUARDRAIL => dump.hit_guardrail = number != 0,
                process_heap_samples::REJECTED_CONCURRENT => dump.is_rejected = number != 0,
                process_heap_samples::SAMPLES => {
                    let row = sample(field.as_bytes().unwrap_or_default(), context);
                    if context.budget.take(ROW_BYTES) {
                        dump.rows.extend(row);
                    }
                }
                _ => {}
            }
        }
        let open = context.chain.open.last();
        let open = open.and_then(|&at| self.dumps.get_mut(at));
        match open.filter(|open| open.key() == dump.key()) {
            Some(open) => open.rows.append(&mut dump.rows),
            None if context.budget.take(DUMP_BYTES + 2 * dump.heap.len()) => {
                context.chain.open.push(self.dumps.len());
                self.dumps.push(dump);
            }
            None => {}
        }
    }

    /// Adds the callstacks that were left out, with their earlier counts.
    fn complete(&mut self, at: usize, context: &mut Context<'_>) {
        let (earlier, rest) = self.dumps.split_at_mut(at);
        let Some(dump) = rest.first_mut() else { return };
        dump.written = dump.rows.len();
        let key = (dump.pid, dump.heap.clone());
        let Some(ended) = context.chain.ended.get_mut(&key) else {
            let first = Ended {
                last: at,
                before: HashMap::new(),
            };
            context.chain.ended.insert(key, first);
            return;
        };
        let previous = earlier.get(std::mem::replace(&mut ended.last, at));
        let Some(previous) = previous else { return };
        let written: HashSet<StackId> = dump.rows.iter().map(|(stack, _)| *stack).collect();
        for (number, (stack, row)) in previous.rows.iter().enumerate() {
            let is_written = written.contains(stack);
            let is_again = is_written && number >= previous.written;
            // Those of dumps of one moment are not sums.
            let is_sum = row.allocated.weight > 0 && (is_again || !is_written);
            if !is_sum || !context.budget.take(ROW_BYTES) {
                continue;
            }
            match is_written {
                true => _ = ended.before.insert(*stack, *row),
                false => dump.rows.push((*stack, *row)),
            }
        }
        for (stack, row) in dump.rows.iter_mut().take(dump.written) {
            if let Some(before) = ended.before.get(stack) {
                row.allocated.add(before.allocated);
                row.freed.add(before.freed);
            }
        }
    }
}

fn sample(bytes: &[u8], context: &mut Context<'_>) -> Option<(StackId, HeapCount)> {
    let mut count = HeapCount::default();
    let mut callstack = 0;
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0);
        match field.number {
            heap_sample::CALLSTACK_ID => callstack = number,
            heap_sample::SELF_ALLOCATED => count.allocated.weight = number,
            heap_sample::SELF_FREED => count.freed.weight = number,
            heap_sample::ALLOC_COUNT => count.allocated.samples = number,
            heap_sample::FREE_COUNT => count.freed.samples = number,
            heap_sample::SELF_MAX | PEAK => count.peak.weight = number,
            heap_sample::SELF_MAX_COUNT | PEAK_COUNT => count.peak.samples = number,
            _ => {}
        }
    }
    let stack = context
        .interned
        .stack(callstack, context.tables, context.problems)?;
    Some((stack, count))
}

impl Profile {
    /// The heap dumps, in the order of the file.
    pub fn heap_dumps(&self) -> &[HeapDump] {
        &self.decoder.heaps.dumps
    }

    /// Adds up heaps by callstack: of each heap the dump that is chosen.
    pub fn heap_counts(
        &self,
        selection: &Selection,
        view: HeapView,
        choice: DumpChoice,
    ) -> StackCounts {
        self.counts_of(&self.chosen(selection, choice), selection, view)
    }

    /// Adds up dumps by callstack. If there are several heaps of a process, they are told apart.
    pub fn counts_of(
        &self,
        dumps: &[&HeapDump],
        selection: &Selection,
        view: HeapView,
    ) -> StackCounts {
        let mut counts = StackCounts::within(selection.clone(), &self.decoder.budget);
        let mut names: HashMap<(u32, i32), &str> = HashMap::new();
        let mut several = HashSet::new();
        let mut ids = HashMap::new();
        for dump in dumps.iter().filter(|dump| !dump.rows.is_empty()) {
            let process = (dump.machine, dump.pid);
            if *names.entry(process).or_insert(&dump.heap) != dump.heap {
                several.insert(process);
            }
        }
        for dump in dumps {
            let process = (dump.machine, dump.pid);
            let heap = several.contains(&process).then(|| {
                let id = ids.entry(&dump.heap);
                *id.or_insert_with(|| self.heap_id(&dump.heap))
            });
            for (stack, row) in &dump.rows {
                let count = row.view(view);
                if count.value(Value::Weight) > 0 {
                    counts.add_heap(key(process, heap.flatten(), *stack), count, dump.time);
                }
            }
        }
        counts
    }

    /// Returns the number of a heap of that name: the place of the first dump of one.
    fn heap_id(&self, name: &str) -> Option<HeapId> {
        let place = self
            .heap_dumps()
            .iter()
            .position(|dump| dump.heap == name)?;
        Some(HeapId(place as u32))
    }

    /// Returns the name of a heap.
    pub fn heap_name(&self, id: HeapId) -> Option<&str> {
        let dump = self.heap_dumps().get(id.0 as usize)?;
        Some(&dump.heap)
    }

    /// The dumps that a selection takes, in the order of the trace.
    fn selected<'a>(&'a self, selection: &Selection) -> impl Iterator<Item = &'a HeapDump> {
        let start = self.clocks.start().unwrap_or(0);
        self.heap_dumps().iter().filter(move |dump| {
            let since = dump.time.saturating_sub(start);
            let is_late = selection.to.is_some_and(|to| since >= to);
            let is_early = selection.from.is_some_and(|from| since < from);
            let is_other = !selection.pids.is_empty() && !selection.pids.contains(&dump.pid);
            !is_late && !is_early && !is_other && !dump.is_rejected
        })
    }

    /// Returns the number of dumps of the heap that has most.
    pub fn max_dumps(&self, selection: &Selection) -> usize {
        let mut counts = HashMap::new();
        for dump in self.selected(selection) {
            *counts.entry(dump.key()).or_insert(0) += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// The chosen dump of each heap.
    pub fn chosen<'a>(&'a self, selection: &Selection, choice: DumpChoice) -> Vec<&'a HeapDump> {
        let mut chosen: Vec<(&HeapDump, usize)> = Vec::new();
        let mut places = HashMap::new();
        for dump in self.selected(selection) {
            let place = *places.entry(dump.key()).or_insert(chosen.len());
            match chosen.get_mut(place) {
                Some((known, number)) => {
                    *number += 1;
                    let is_beyond =
                        matches!(choice, DumpChoice::Number(wanted) if *number > wanted);
                    if !is_beyond {
                        *known = dump;
                    }
                }
                None => chosen.push((dump, 1)),
            }
        }
        chosen.into_iter().map(|(dump, _)| dump).collect()
    }
}

/// The key under which a heap's callstack is counted; a heap has no session of samples.
fn key((machine, pid): (u32, i32), heap: Option<HeapId>, stack: StackId) -> StackKey {
    StackKey {
        session: SessionId(u32::MAX),
        machine,
        pid,
        tid: pid,
        heap,
        stack,
        truncated: None,
    }
}
