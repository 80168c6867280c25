//! Frequencies of CPUs.

use std::collections::BTreeMap;

use ferretto_proto::fields::sys_stats;
use ferretto_wire::Fields;

/// CPUs beyond this number are left out, so that memory stays bounded on any input.
const MAX_CPUS: usize = 1 << 14;

/// The frequencies that a CPU of the service's machine was seen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrequencySummary {
    /// Number of the CPU.
    pub cpu: u32,
    /// The lowest one, in kHz.
    pub lowest_khz: u64,
    /// The highest one, in kHz.
    pub highest_khz: u64,
    /// The number of times that it was another one than before.
    pub changes: u64,
}

/// Collects frequencies, by CPU, with the latest one.
#[derive(Debug, Default)]
pub(super) struct Frequencies(BTreeMap<u32, (FrequencySummary, u64)>);

impl Frequencies {
    /// Reads a `SysStats`.
    pub(super) fn sys_stats(&mut self, bytes: &[u8]) {
        let fields = Fields::new(bytes).map_while(Result::ok);
        let fields = fields.filter(|field| field.number == sys_stats::CPUFREQ_KHZ);
        // All CPUs in one packed field, or one field each.
        let all = fields.flat_map(|field| field.as_varints().collect::<Vec<_>>());
        for (cpu, khz) in all.enumerate() {
            self.add(cpu as u32, khz);
        }
    }

    fn add(&mut self, cpu: u32, khz: u64) {
        // CPUs that are off have none.
        if khz == 0 || (self.0.len() >= MAX_CPUS && !self.0.contains_key(&cpu)) {
            return;
        }
        let first = FrequencySummary {
            cpu,
            lowest_khz: khz,
            highest_khz: khz,
            changes: 0,
        };
        let (summary, latest) = self.0.entry(cpu).or_insert((first, khz));
        summary.lowest_khz = summary.lowest_khz.min(khz);
        summary.highest_khz = summary.highest_khz.max(khz);
        if std::mem::replace(latest, khz) != khz {
            summary.changes += 1;
        }
    }

    pub(super) fn finish(self) -> Vec<FrequencySummary> {
        self.0.into_values().map(|(summary, _)| summary).collect()
    }
}
