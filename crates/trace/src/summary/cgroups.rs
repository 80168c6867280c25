//! Control groups: the resources that containers and units used.

use std::collections::{BTreeMap, HashMap};

use ferretto_format::cgroup::Group;
use ferretto_proto::CgroupCounters as Key;
use ferretto_proto::fields::process_tree::{self, process};
use ferretto_proto::fields::sys_stats::{self, cgroup, cgroup_value};
use ferretto_wire::Fields;

use super::memory::Level;
use crate::printable::printable;
use crate::threads::ProcessSummary;

/// The maximum number of groups and of processes in them, so that memory is bounded for any input.
/// Others are left out.
const MAX_GROUPS: usize = 1 << 12;
const MAX_PROCESSES: usize = 1 << 16;

/// The resources that a container, a unit or another control group used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupSummary {
    /// The machine; 0 is the machine of the tracing service.
    pub machine: u32,
    /// The path of the group.
    pub path: String,
    /// The identifier of the container, as it is usually shown, or else the unit or the path.
    pub name: String,
    /// The engine of the container, if its path names it.
    pub engine: Option<&'static str>,
    /// True if it is a container.
    pub is_container: bool,
    /// The CPU time of all its processes, in nanoseconds: by the counters of the group, or else by
    /// context switches.
    pub cpu_ns: Option<u64>,
    /// The number of its processes that ran.
    pub processes: usize,
    /// The number of periods in which its share of the CPUs was limited.
    pub periods: Option<u64>,
    /// The number of these in which it was stopped, because its share was used up.
    pub throttled_periods: Option<u64>,
    /// The time that its threads were stopped for that reason, in nanoseconds.
    pub throttled_ns: Option<u64>,
    /// Its memory over time.
    pub memory: Option<Level>,
    /// The limit of its memory in bytes.
    pub memory_limit: Option<u64>,
    /// The number of its processes killed for lack of memory.
    pub killed: Option<u64>,
    /// The number of bytes it read from disks.
    pub read_bytes: Option<u64>,
    /// The number of bytes it wrote to disks.
    pub written_bytes: Option<u64>,
}

/// Collects the groups of a trace.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    groups: BTreeMap<(u32, String), Counters>,
    /// The owner of the group of each process.
    processes: HashMap<(u32, i32), String>,
    left_out: u64,
}

/// The counters of a group.
#[derive(Debug, Default)]
struct Counters {
    /// The first and the last value by key.
    values: BTreeMap<u64, (u64, u64)>,
    memory: Option<Level>,
}

impl Counters {
    /// Returns the difference between the last and the first value.
    fn growth(&self, key: Key) -> Option<u64> {
        let (first, last) = self.values.get(&(key as u64))?;
        Some(last.saturating_sub(*first))
    }
}

impl Cgroups {
    /// Reads a `ProcessTree`.
    pub(super) fn process_tree(&mut self, machine: u32, bytes: &[u8]) {
        for part in Fields::new(bytes).map_while(Result::ok) {
            let (process_tree::PROCESSES, Some(message)) = (part.number, part.as_bytes()) else {
                continue;
            };
            let path = Fields::find(process::CGROUP, message).and_then(|path| path.as_bytes());
            let pid = Fields::find(process::PID, message).and_then(|pid| pid.as_u64());
            let (Some(path), Some(pid)) = (path, pid) else {
                continue;
            };
            let key = (machine, pid as i32);
            if self.processes.len() < MAX_PROCESSES || self.processes.contains_key(&key) {
                let path = String::from_utf8_lossy(path);
                self.processes
                    .insert(key, printable(Group::new(&path).owner.as_bytes()));
            }
        }
    }

    /// Reads a `SysStats`.
    pub(super) fn sys_stats(&mut self, machine: u32, bytes: &[u8]) {
        for part in Fields::new(bytes).map_while(Result::ok) {
            if part.number == sys_stats::CGROUPS_LEFT_OUT {
                self.left_out = self.left_out.max(part.as_u64().unwrap_or(0));
            }
            if let (sys_stats::CGROUP, Some(message)) = (part.number, part.as_bytes()) {
                self.group(machine, message);
            }
        }
    }

    fn group(&mut self, machine: u32, message: &[u8]) {
        let path = Fields::find(cgroup::PATH, message).and_then(|path| path.as_bytes());
        let key = (machine, printable(path.unwrap_or_default()));
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&key) {
            return;
        }
        let counters = self.groups.entry(key).or_default();
        for part in Fields::new(message).map_while(Result::ok) {
            let (cgroup::VALUE, Some(pair)) = (part.number, part.as_bytes()) else {
                continue;
            };
            let number = |number| Fields::find(number, pair)?.as_u64();
            let (Some(key), value) = (number(cgroup_value::KEY), number(cgroup_value::VALUE))
            else {
                continue;
            };
            // A damaged file may have any keys.
            if key > Key::CGROUP_PSI_MEMORY_FULL_US as u64 {
                continue;
            }
            let value = value.unwrap_or(0);
            if key == Key::CGROUP_MEMORY_CURRENT as u64 {
                Level::add(&mut counters.memory, value);
            }
            counters.values.entry(key).or_insert((value, value)).1 = value;
        }
    }

    /// Returns a note if groups were left out.
    pub(super) fn note(&self) -> Option<String> {
        (self.left_out > 0).then(|| {
            format!(
                "the counters of {} control groups were not recorded, since there were too many; name those of interest",
                self.left_out
            )
        })
    }

    /// Returns the groups in descending order of CPU time.
    pub(super) fn finish(mut self, processes: &[ProcessSummary]) -> Vec<CgroupSummary> {
        let mut run: HashMap<(u32, String), (u64, usize)> = HashMap::new();
        for process in processes {
            let owner = self.processes.get(&(process.machine, process.pid));
            let Some(owner) = owner else { continue };
            let key = (process.machine, owner.clone());
            if !self.groups.contains_key(&key) {
                if self.groups.len() >= MAX_GROUPS {
                    continue;
                }
                self.groups.insert(key.clone(), Counters::default());
            }
            let (time, count) = run.entry(key).or_default();
            *time = time.saturating_add(process.cpu_ns);
            *count += 1;
        }
        let summary = |((machine, path), counters): (&(u32, String), &Counters)| {
            let group = Group::new(path);
            let ran = run.get(&(*machine, path.clone()));
            let ns = |us: u64| us.saturating_mul(1000);
            let counted = counters.growth(Key::CGROUP_CPU_USAGE_US).map(ns);
            let limit = counters.values.get(&(Key::CGROUP_MEMORY_MAX as u64));
            CgroupSummary {
                machine: *machine,
                path: path.clone(),
                name: group.name().to_owned(),
                engine: group.container.and_then(|container| container.engine),
                is_container: group.container.is_some(),
                cpu_ns: counted.or(ran.map(|(time, _)| *time)),
                processes: ran.map_or(0, |(_, count)| *count),
                periods: counters.growth(Key::CGROUP_CPU_PERIODS),
                throttled_periods: counters.growth(Key::CGROUP_CPU_THROTTLED_PERIODS),
                throttled_ns: counters.growth(Key::CGROUP_CPU_THROTTLED_US).map(ns),
                memory: counters.memory,
                memory_limit: limit.map(|(_, last)| *last),
                killed: counters.growth(Key::CGROUP_MEMORY_OOM_KILLS),
                read_bytes: counters.growth(Key::CGROUP_IO_READ_BYTES),
                written_bytes: counters.growth(Key::CGROUP_IO_WRITTEN_BYTES),
            }
        };
        let mut all: Vec<_> = self.groups.iter().map(summary).collect();
        all.sort_by_key(|group| std::cmp::Reverse(group.cpu_ns));
        all
    }
}
