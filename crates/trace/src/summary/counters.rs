//! Counters: which ones the trace holds and how many samples of each.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_wire::Fields;

/// Series beyond this number of one group are not told apart, so that memory stays bounded on any
/// input.
const MAX_SERIES: usize = 1 << 14;

/// A group of counters that are sampled together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSummary {
    /// The quantity that is counted, for example `memory (meminfo)`.
    pub name: &'static str,
    /// The number of different counters: kinds, CPUs, processes, devices.
    pub series: usize,
    /// Samples over all of them.
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
    /// One sample of the counter `series` of a group.
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
                1 => "memory (meminfo)",
                2 => "virtual memory (vmstat)",
                3 => "CPU times (stat)",
                4 => "forks (stat)",
                5..=8 => "interrupts (stat)",
                10 => "device frequency (devfreq)",
                11 => "CPU frequency (cpufreq)",
                12 => "free pages (buddyinfo)",
                13 => "disks (diskstats)",
                14 => "pressure (psi)",
                15 => "temperature (thermal)",
                16 => "CPU idle states (cpuidle)",
                17 => "GPU frequency",
                18 => "kernel memory (slabinfo)",
                _ => continue,
            };
            // The key where there is a numeric one; else the position among its like, which is
            // stable.
            let key = match field.number {
                1 | 2 | 3 | 14 => field
                    .as_bytes()
                    .and_then(|body| Fields::find(1, body)?.as_u64())
                    .unwrap_or(0),
                4 => 0,
                number => {
                    let position = positions.entry(number).or_insert(0u64);
                    *position += 1;
                    u64::from(number) << 32 | *position
                }
            };
            if field.number == 11 {
                // All CPUs in one packed field, or one field each.
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
        for process in Fields::new(bytes)
            .map_while(Result::ok)
            .filter(|field| field.number == 1)
        {
            let Some(process) = process.as_bytes() else {
                continue;
            };
            let pid = Fields::find(1, process)
                .and_then(|f| f.as_u64())
                .unwrap_or(0);
            for field in Fields::new(process).map_while(Result::ok) {
                match field.number {
                    // VmRSS, and the total of smaps_rollup for those that ask for it.
                    3 => self.sample("process memory", pid),
                    17 => self.sample("process memory (smaps)", pid),
                    21 => self.sample("process CPU times", pid),
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
