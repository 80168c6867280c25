//! Heap dumps: what a process has allocated, by callstack.

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

/// Fields of `HeapSample` that upstream does not know: bytes and samples when most was allocated.
const PEAK: u32 = 15_601;
const PEAK_COUNT: u32 = 15_602;
/// A dump without its rows.
const DUMP_BYTES: usize = 512;
/// A row, and what is made of it.
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
    /// Returns what is allocated and not freed.
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
    /// The client wrote what made no sense.
    pub is_corrupt: bool,
    /// The profiler ended itself, as it took too much.
    pub hit_guardrail: bool,
    /// Another recording had the process.
    pub is_rejected: bool,
    rows: Vec<(StackId, HeapCount)>,
    is_continued: bool,
}

impl HeapDump {
    /// The callstacks, in the order of the file.
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

    fn is_of(&self, other: &Self) -> bool {
        (self.machine, self.pid, &self.heap) == (other.machine, other.pid, &other.heap)
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

/// Reads `ProfilePacket`s.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    pub(super) dumps: Vec<HeapDump>,
}

/// The tables that a packet is read by.
pub(super) struct Context<'a> {
    pub(super) interned: &'a mut Interned,
    pub(super) tables: &'a mut Tables,
    pub(super) problems: &'a mut Problems,
    pub(super) budget: &'a Budget,
    pub(super) machine: u32,
    pub(super) time: u64,
}

impl Heaps {
    pub(super) fn read(&mut self, packet: &[u8], context: &mut Context<'_>) {
        let is_continued = Fields::find(profile_packet::CONTINUED, packet);
        let is_continued = is_continued.and_then(|field| field.as_u64()) == Some(1);
        let parts = Fields::new(packet).map_while(Result::ok);
        for part in parts.filter(|part| part.number == profile_packet::PROCESS_DUMPS) {
            self.dump(part.as_bytes().unwrap_or_default(), is_continued, context);
        }
    }

    fn dump(&mut self, bytes: &[u8], is_continued: bool, context: &mut Context<'_>) {
        let mut dump = HeapDump {
            machine: context.machine,
            time: context.time,
            is_continued,
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
        let last = self.dumps.last_mut();
        match last.filter(|last| last.is_continued && last.is_of(&dump)) {
            Some(last) => {
                last.rows.append(&mut dump.rows);
                last.is_continued = is_continued;
            }
            None if context.budget.take(DUMP_BYTES + dump.heap.len()) => self.dumps.push(dump),
            None => {}
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
        let mut counts = StackCounts::within(selection.clone(), &self.decoder.budget);
        for dump in self.chosen(selection, choice) {
            for (stack, row) in &dump.rows {
                let count = row.view(view);
                if count.value(Value::Weight) > 0 {
                    counts.add_heap((dump.machine, dump.pid), *stack, count, dump.time);
                }
            }
        }
        counts
    }

    /// The chosen dump of each heap.
    pub fn chosen<'a>(&'a self, selection: &Selection, choice: DumpChoice) -> Vec<&'a HeapDump> {
        let start = self.clocks.start().unwrap_or(0);
        let is_selected = |dump: &&HeapDump| {
            let since = dump.time.saturating_sub(start);
            let is_late = selection.to.is_some_and(|to| since >= to);
            let is_early = selection.from.is_some_and(|from| since < from);
            let is_other = !selection.pids.is_empty() && !selection.pids.contains(&dump.pid);
            !is_late && !is_early && !is_other && !dump.is_rejected
        };
        let mut chosen: Vec<(&HeapDump, usize)> = Vec::new();
        for dump in self.heap_dumps().iter().filter(is_selected) {
            match chosen.iter_mut().find(|(known, _)| known.is_of(dump)) {
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

/// The key of what a heap's callstack is counted under; a heap has no session of samples.
pub(super) fn key((machine, pid): (u32, i32), stack: StackId) -> StackKey {
    StackKey {
        session: SessionId(u32::MAX),
        machine,
        pid,
        tid: pid,
        stack,
        truncated: None,
    }
}
