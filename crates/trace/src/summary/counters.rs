//! Counters: their names and numbers of samples.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_proto::fields::process_stats::{self, process};
use ferretto_proto::fields::sys_stats::{self, cpu_times, meminfo_value, psi_sample};
use ferretto_wire::{Field, Fields};

/// The maximum number of distinct series of a group, so that memory is bounded for any input.
const MAX_SERIES: usize = 1 << 14;

/// A group of counters that are sampled together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSummary {
    /// The quantity that is counted, for example `memory (meminfo)`.
    pub name: &'static str,
    /// The number of distinct counters: kinds, CPUs, processes, devices.
    pub series: usize,
    /// The number of samples of all these counters.
    pub samples: u64,
}

#[derive(Debug, Default)]
struct Group {
    series: BTreeSet<u64>,
    samples: u64,
}

/// Counts samples by group.
#[derive(Debug, Default)]
pub(super) struct Counters {
    groups: BTreeMap<&'static str, Group>,
}

impl Counters {
    /// Adds a sample of the counter `series` of a group.
    pub(super) fn sample(&mut self, group: &'static str, series: u64) {
        let group = self.groups.entry(group).or_default();
        group.samples = group.samples.saturating_add(1);
        if group.series.len() < MAX_SERIES {
            group.series.insert(series);
        }
    }

    /// Reads a `SysStats`.
    pub(super) fn sys_stats(&mut self, bytes: &[u8]) {
        let mut positions = BTreeMap::new();
        for field in Fields::new(bytes).map_while(Result::ok) {
            let group = match field.number {
                sys_stats::MEMINFO => "memory (meminfo)",
                sys_stats::VMSTAT => "virtual memory (vmstat)",
                sys_stats::CPU_STAT => "CPU times (stat)",
                sys_stats::NUM_FORKS => "forks (stat)",
                sys_stats::NUM_IRQ_TOTAL
                | sys_stats::NUM_IRQ
                | sys_stats::NUM_SOFTIRQ_TOTAL
                | sys_stats::NUM_SOFTIRQ => "interrupts (stat)",
                sys_stats::DEVFREQ => "device frequency (devfreq)",
                sys_stats::CPUFREQ_KHZ => "CPU frequency (cpufreq)",
                sys_stats::BUDDY_INFO => "free pages (buddyinfo)",
                sys_stats::DISK_STAT => "disks (diskstats)",
                sys_stats::PSI => "pressure (psi)",
                sys_stats::THERMAL_ZONE => "temperature (thermal)",
                sys_stats::CPUIDLE_STATE => "CPU idle states (cpuidle)",
                sys_stats::GPUFREQ_MHZ => "GPU frequency",
                sys_stats::SLAB_INFO => "kernel memory (slabinfo)",
                _ => continue,
            };
            // The numeric key if there is one, otherwise the position among counters of the same
            // kind, which is stable.
            let key = match field.number {
                sys_stats::MEMINFO | sys_stats::VMSTAT => number_in(&field, meminfo_value::KEY),
                sys_stats::CPU_STAT => number_in(&field, cpu_times::CPU_ID),
                sys_stats::PSI => number_in(&field, psi_sample::RESOURCE),
                sys_stats::NUM_FORKS => 0,
                number => {
                    let position = positions.entry(number).or_insert(0u64);
                    *position += 1;
                    u64::from(number) << 32 | *position
                }
            };
            if field.number == sys_stats::CPUFREQ_KHZ {
                // One packed field for all CPUs, or one field per CPU.
                for (cpu, _) in field.as_varints().enumerate() {
                    self.sample(group, key << 16 | cpu as u64);
                }
            } else {
                self.sample(group, key);
            }
        }
    }

    /// Reads a `ProcessStats`.
    pub(super) fn process_stats(&mut self, bytes: &[u8]) {
        for record in Fields::new(bytes)
            .map_while(Result::ok)
            .filter(|field| field.number == process_stats::PROCESSES)
        {
            let Some(message) = record.as_bytes() else {
                continue;
            };
            let pid = Fields::find(process::PID, message)
                .and_then(|f| f.as_u64())
                .unwrap_or(0);
            for field in Fields::new(message).map_while(Result::ok) {
                match field.number {
                    // VmRSS, and the total of smaps_rollup if it was recorded.
                    process::VM_RSS_KB => self.sample("process memory", pid),
                    process::SMR_PSS_KB => self.sample("process memory (smaps)", pid),
                    process::RUNTIME_USER_MODE => self.sample("process CPU times", pid),
                    _ => {}
                }
            }
        }
    }

    pub(super) fn finish(self) -> Vec<CounterSummary> {
        let summary = |(name, group): (&'static str, Group)| CounterSummary {
            name,
            series: group.series.len(),
            samples: group.samples,
        };
        self.groups.into_iter().map(summary).collect()
    }
}

/// Returns a numeric field of the message in `field`; 0 if it is missing.
fn number_in(field: &Field<'_>, number: u32) -> u64 {
    field
        .as_bytes()
        .and_then(|message| Fields::find(number, message)?.as_u64())
        .unwrap_or(0)
}
