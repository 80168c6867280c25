//! Heap dumps: the allocations of a process, by callstack.

use std::collections::{HashMap, HashSet};

use ferretto_format::heap_sample::{PEAK, PEAK_COUNT};
use ferretto_proto::fields::profile_packet;
use ferretto_proto::fields::profile_packet::{heap_sample, process_heap_samples};
use ferretto_wire::Fields;

use super::counts::{Count, HeapId, Selection, StackCounts, StackKey};
use super::interned::Interned;
use super::problem::Problems;
use super::session::SessionId;
use super::tables::{StackId, Tables};
use super::{Profile, Value};
use crate::limits::Budget;
use crate::printable::printable;

/// The accounted bytes of a dump without its rows.
const DUMP_BYTES: usize = 512;
/// The accounted bytes of a row and of its copy in results.
const ROW_BYTES: usize = 2 * size_of::<(StackId, HeapCount)>();

/// The counts of one callstack in a dump, since the start of the recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapCount {
    /// Allocated bytes and allocations.
    pub allocated: Count,
    /// Freed bytes and allocations.
    pub freed: Count,
    /// Bytes and allocations at the peak of the heap.
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

    /// Returns the count for a view.
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
    /// Memory that is allocated and not freed.
    #[default]
    Leaked,
    /// All allocations.
    Allocated,
    /// Memory that was allocated at the peak of the heap.
    Peak,
}

/// A dump of a heap of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapDump {
    /// The machine.
    pub machine: u32,
    /// The process.
    pub pid: i32,
    /// The name of the heap, such as `libc.malloc`.
    pub heap: String,
    /// The time of the dump, in nanoseconds of boot time.
    pub time: u64,
    /// The mean number of bytes between two samples.
    pub interval: u64,
    /// True if samples were lost because the ring was full.
    pub has_overrun: bool,
    /// True if the client wrote malformed records.
    pub is_corrupt: bool,
    /// True if the profiler stopped because it exceeded its resource limits.
    pub hit_guardrail: bool,
    /// True if another recording already profiled the process.
    pub is_rejected: bool,
    rows: Vec<(StackId, HeapCount)>,
    /// The number of rows in the file; later rows are copied from the previous dump.
    written: usize,
}

impl HeapDump {
    /// Returns the callstacks, in the order of the file. Upstream's profiler omits callstacks whose
    /// allocations were all freed before the last dump; these follow at the end.
    pub fn rows(&self) -> &[(StackId, HeapCount)] {
        &self.rows
    }

    /// Returns the sum of all rows.
    pub fn total(&self) -> HeapCount {
        let mut total = HeapCount::default();
        for (_, row) in &self.rows {
            total.allocated.add(row.allocated);
            total.freed.add(row.freed);
            total.peak.add(row.peak);
        }
        total
    }

    /// Returns the key that identifies the heap.
    pub(crate) fn key(&self) -> (u32, i32, &str) {
        (self.machine, self.pid, &self.heap)
    }
}

/// Selects a dump of each heap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DumpChoice {
    /// The last dump within the selection.
    #[default]
    Last,
    /// The dump with this number, starting at 1; the last one if there are fewer.
    Number(usize),
}

/// A decoder of `ProfilePacket`s.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    pub(super) dumps: Vec<HeapDump>,
}

/// The dumps of a sequence.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The indices of dumps that the next packet may continue.
    open: Vec<usize>,
    ended: HashMap<(i32, String), Ended>,
}

/// The state of a heap after its last complete dump.
#[derive(Debug, Default)]
struct Ended {
    /// The index of the last dump.
    last: usize,
    /// The last counts of callstacks that were omitted from a dump, and later restarted at 0.
    before: HashMap<StackId, HeapCount>,
}

/// The context for decoding a packet.
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

    /// Adds the omitted callstacks, with their earlier counts.
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
            // Rows of snapshot dumps are not cumulative.
            let is_sum = row.allocated.weight > 0 && (is_again || !is_written);
            if !is_sum || !context.budget.take(ROW_BYTES) {
                continue;
            }
            if is_written {
                _ = ended.before.insert(*stack, *row)
            } else {
                dump.rows.push((*stack, *row))
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
    /// Returns the heap dumps, in the order of the file.
    pub fn heap_dumps(&self) -> &[HeapDump] {
        &self.decoder.heaps.dumps
    }

    /// Counts the chosen dump of each heap by callstack.
    pub fn heap_counts(
        &self,
        selection: &Selection,
        view: HeapView,
        choice: DumpChoice,
    ) -> StackCounts {
        self.counts_of(&self.chosen(selection, choice), selection, view)
    }

    /// Counts dumps by callstack, and by heap for processes with several heaps.
    pub(crate) fn counts_of(
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

    /// Returns the id of heaps with this name: the index of their first dump.
    fn heap_id(&self, name: &str) -> Option<HeapId> {
        let index = self
            .heap_dumps()
            .iter()
            .position(|dump| dump.heap == name)?;
        Some(HeapId(index as u32))
    }

    /// Returns the name of a heap.
    pub fn heap_name(&self, id: HeapId) -> Option<&str> {
        let dump = self.heap_dumps().get(id.0 as usize)?;
        Some(&dump.heap)
    }

    /// Returns the selected dumps, in the order of the trace.
    fn selected<'a>(&'a self, selection: &Selection) -> impl Iterator<Item = &'a HeapDump> {
        self.heap_dumps().iter().filter(|dump| {
            let is_other = !selection.pids.is_empty() && !selection.pids.contains(&dump.pid);
            selection.has_time(dump.time) && !is_other && !dump.is_rejected
        })
    }

    /// Returns the largest number of dumps of any heap.
    pub fn max_dumps(&self, selection: &Selection) -> usize {
        let mut counts = HashMap::new();
        for dump in self.selected(selection) {
            *counts.entry(dump.key()).or_insert(0) += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// Returns the chosen dump of each heap.
    pub fn chosen<'a>(&'a self, selection: &Selection, choice: DumpChoice) -> Vec<&'a HeapDump> {
        let mut chosen: Vec<(&HeapDump, usize)> = Vec::new();
        let mut indexes = HashMap::new();
        for dump in self.selected(selection) {
            let index = *indexes.entry(dump.key()).or_insert(chosen.len());
            match chosen.get_mut(index) {
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

/// Returns the key of a heap's callstack; heap dumps have no session of samples.
fn key((machine, pid): (u32, i32), heap: Option<HeapId>, stack: StackId) -> StackKey {
    StackKey {
        session: SessionId(u32::MAX),
        machine,
        pid,
        tid: pid,
        counter: 0,
        heap,
        stack,
        truncated: None,
    }
}
