//! Memory: page faults, available memory, and the growth of processes.

use std::collections::BTreeMap;

use ferretto_proto::fields::process_stats::{self, process};
use ferretto_proto::fields::sys_stats::{self, meminfo_value};
use ferretto_wire::{Field, Fields};

use crate::threads::Threads;

/// The maximum number of processes, so that memory is bounded for any input. Others are left out.
const MAX_PROCESSES: usize = 1 << 14;

/// Keys of `/proc/meminfo` and `/proc/vmstat`.
const MEM_AVAILABLE: u64 = 3;
const PSWPIN: u64 = 41;
const PSWPOUT: u64 = 42;
const PGFAULT: u64 = 49;
const PGMAJFAULT: u64 = 50;
const OOM_KILL: u64 = 115;

/// The memory of a machine and its processes during the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySummary {
    /// The number of page faults.
    pub page_faults: Option<u64>,
    /// The number of major page faults, which waited for a disk.
    pub disk_page_faults: Option<u64>,
    /// The number of pages read from swap.
    pub swapped_in: Option<u64>,
    /// The number of pages written to swap.
    pub swapped_out: Option<u64>,
    /// The number of processes killed for lack of memory.
    pub killed: Option<u64>,
    /// The available memory, in bytes.
    pub available: Option<Level>,
    /// The processes whose memory was read more than once, in descending order of growth.
    pub processes: Vec<ProcessMemory>,
}

/// A quantity over time, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The first value.
    pub first: u64,
    /// The lowest value.
    pub lowest: u64,
    /// The highest value.
    pub highest: u64,
    /// The last value.
    pub last: u64,
}

/// The resident memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The process id.
    pub pid: i32,
    /// The machine; 0 is the machine of the tracing service.
    pub machine: u32,
    /// Its command line, or its name.
    pub name: String,
    /// Its memory over time.
    pub memory: Level,
}

impl Level {
    pub(super) fn add(level: &mut Option<Self>, value: u64) {
        let level = level.get_or_insert(Self {
            first: value,
            lowest: value,
            highest: value,
            last: value,
        });
        level.lowest = level.lowest.min(value);
        level.highest = level.highest.max(value);
        level.last = value;
    }

    /// Returns the difference between the highest and the first value.
    pub fn growth(self) -> u64 {
        self.highest.saturating_sub(self.first)
    }
}

/// Collects the memory counters of a trace.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The first and last value of monotonic counters, by key.
    counts: BTreeMap<u64, (u64, u64)>,
    available: Option<Level>,
    processes: BTreeMap<(u32, u64), Option<Level>>,
}

impl Memory {
    /// Reads a `SysStats` of the service's machine.
    pub(super) fn sys_stats(&mut self, bytes: &[u8]) {
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                sys_stats::MEMINFO => {
                    if let Some((MEM_AVAILABLE, kib)) = entry(&field) {
                        Level::add(&mut self.available, kib.saturating_mul(1024));
                    }
                }
                sys_stats::VMSTAT => {
                    if let Some((key, value)) = entry(&field)
                        && matches!(key, PSWPIN | PSWPOUT | PGFAULT | PGMAJFAULT | OOM_KILL)
                    {
                        self.counts.entry(key).or_insert((value, value)).1 = value;
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads a `ProcessStats`.
    pub(super) fn process_stats(&mut self, machine: u32, bytes: &[u8]) {
        for record in Fields::new(bytes).map_while(Result::ok) {
            let (process_stats::PROCESSES, Some(message)) = (record.number, record.as_bytes())
            else {
                continue;
            };
            let number = |number| Fields::find(number, message)?.as_u64();
            let (Some(pid), Some(kib)) = (number(process::PID), number(process::VM_RSS_KB)) else {
                continue;
            };
            let key = (machine, pid);
            if self.processes.len() < MAX_PROCESSES || self.processes.contains_key(&key) {
                let level = self.processes.entry(key).or_default();
                Level::add(level, kib.saturating_mul(1024));
            }
        }
    }

    pub(super) fn finish(self, threads: &Threads) -> MemorySummary {
        let count = |key| {
            let (first, last) = self.counts.get(&key)?;
            Some(last.saturating_sub(*first))
        };
        let process = |(&(machine, pid), level): (&(u32, u64), &Option<Level>)| {
            let pid = i32::try_from(pid).ok()?;
            let name = threads.process_name(machine, pid).unwrap_or_default();
            Some(ProcessMemory {
                pid,
                machine,
                name: name.to_owned(),
                memory: (*level)?,
            })
        };
        let mut processes: Vec<_> = self.processes.iter().filter_map(process).collect();
        processes.sort_by_key(|process| std::cmp::Reverse(process.memory.growth()));
        MemorySummary {
            page_faults: count(PGFAULT),
            disk_page_faults: count(PGMAJFAULT),
            swapped_in: count(PSWPIN),
            swapped_out: count(PSWPOUT),
            killed: count(OOM_KILL),
            available: self.available,
            processes,
        }
    }
}

/// Returns the key and value of a counter.
fn entry(field: &Field<'_>) -> Option<(u64, u64)> {
    let message = field.as_bytes()?;
    let number = |number| Fields::find(number, message)?.as_u64();
    Some((
        number(meminfo_value::KEY)?,
        number(meminfo_value::VALUE).unwrap_or(0),
    ))
}
