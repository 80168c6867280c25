//! Heaps: allocated memory by function, and its growth.

use std::collections::{HashMap, HashSet};

use crate::profile::{
    DumpChoice, HeapCount, HeapDump, HeapView, HotFunction, Profile, Selection, Value, sites,
};

/// The maximum number of functions in a summary.
const TOP: usize = 32;

/// The summary of a heap of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapSummary {
    /// The machine.
    pub machine: u32,
    /// The process.
    pub pid: i32,
    /// Its name; empty if the trace has none.
    pub process: String,
    /// The name of the heap, such as `libc.malloc`.
    pub heap: String,
    /// The mean number of bytes between two samples.
    pub interval: u64,
    /// The number of its dumps.
    pub dumps: usize,
    /// The allocated bytes at each dump.
    pub live: Vec<u64>,
    /// The sum of the last dump.
    pub total: HeapCount,
    /// The functions in descending order of allocated memory that is not freed. Allocations of
    /// allocators and standard libraries count for their callers.
    pub sites: Vec<HeapSite>,
}

/// A function that allocates, directly or through an allocator or standard library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapSite {
    /// The function; its own count is bytes and allocations that are not freed.
    pub function: HotFunction,
    /// The growth since the first dump, in bytes.
    pub growth: i64,
}

/// Returns the summaries of all heaps, the largest first.
pub(super) fn summaries(profile: &Profile) -> Vec<HeapSummary> {
    let last = profile.chosen(&Selection::default(), DumpChoice::Last);
    let mut dumps: HashMap<_, Vec<&HeapDump>> = HashMap::new();
    for dump in profile.heap_dumps().iter().filter(|dump| !dump.is_rejected) {
        dumps.entry(dump.key()).or_default().push(dump);
    }
    let mut summaries: Vec<_> = last
        .into_iter()
        .map(|dump| summary(profile, dump, dumps.remove(&dump.key()).unwrap_or_default()))
        .collect();
    summaries.sort_by_key(|heap| std::cmp::Reverse(heap.total.leaked().weight));
    summaries
}

/// Summarizes a heap. `dump` is the last of `dumps`.
fn summary(profile: &Profile, dump: &HeapDump, dumps: Vec<&HeapDump>) -> HeapSummary {
    let live = dumps.iter().map(|dump| dump.total().leaked().weight);
    let live: Vec<u64> = live.collect();
    let sites_of = |dump: &HeapDump| {
        let counts = profile.counts_of(&[dump], &Selection::default(), HeapView::Leaked);
        sites(profile, &counts, Value::Weight)
    };
    let mut now = sites_of(dump);
    now.retain(|function| function.own.weight > 0);
    now.truncate(TOP);
    let before: HashMap<(String, String), u64> = match &*dumps {
        [] | [_] => HashMap::new(),
        [first, ..] => sites_of(first)
            .into_iter()
            .map(|function| ((function.name, function.module), function.own.weight))
            .collect(),
    };
    let sites = now.into_iter().map(|function| {
        let key = (function.name.clone(), function.module.clone());
        let old = before.get(&key).copied().unwrap_or(0);
        HeapSite {
            growth: function.own.weight.wrapping_sub(old) as i64,
            function,
        }
    });
    HeapSummary {
        machine: dump.machine,
        pid: dump.pid,
        process: profile
            .process_name(dump.machine, dump.pid)
            .unwrap_or_default()
            .to_owned(),
        heap: dump.heap.clone(),
        interval: dump.interval,
        dumps: live.len(),
        live,
        total: dump.total(),
        sites: sites.collect(),
    }
}

/// Returns a sentence for each problem of heap dumps.
pub(super) fn notes(profile: &Profile) -> Vec<String> {
    let last = profile.chosen(&Selection::default(), DumpChoice::Last);
    let mut notes = Vec::new();
    let mut noted = HashSet::new();
    for dump in last {
        let pid = dump.pid;
        // Reported once for all heaps of a process.
        let mut note_once = |note: String| {
            if noted.insert(note.clone()) {
                notes.push(note);
            }
        };
        if dump.has_overrun {
            note_once(format!(
                "heap of process {pid}: some samples were lost because the ring was full; sample less often (a larger \
                 sampling_interval_bytes) or raise shmem_size_bytes"
            ));
        }
        if dump.is_corrupt {
            note_once(format!(
                "heap of process {pid}: the client wrote malformed records; the dump contains the data before them"
            ));
        }
        if dump.hit_guardrail {
            note_once(format!(
                "heap of process {pid}: the profiler ended early because of max_heapprofd_memory_kb or max_heapprofd_cpu_secs"
            ));
        }
    }
    let rejected = profile.heap_dumps().iter().filter(|dump| dump.is_rejected);
    notes.extend(rejected.map(|dump| {
        let pid = dump.pid;
        format!(
            "heap of process {pid}: not recorded, because another recording already profiled it"
        )
    }));
    notes
}
