//! CPU frequencies.

use std::collections::BTreeMap;

use ferretto_proto::fields::sys_stats;
use ferretto_wire::Fields;

/// The maximum number of CPUs, so that memory is bounded for any input. Others are left out.
const MAX_CPUS: usize = 1 << 14;

/// The observed frequencies of a CPU of the service's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrequencySummary {
    /// The number of the CPU.
    pub cpu: u32,
    /// The lowest frequency, in kHz.
    pub lowest_khz: u64,
    /// The highest frequency, in kHz.
    pub highest_khz: u64,
    /// The number of frequency changes.
    pub changes: u64,
}

/// The frequency summaries by CPU, with the latest frequency.
#[derive(Debug, Default)]
pub(super) struct Frequencies(BTreeMap<u32, (FrequencySummary, u64)>);

impl Frequencies {
    /// Reads a `SysStats`.
    pub(super) fn sys_stats(&mut self, bytes: &[u8]) {
        let fields = Fields::new(bytes).map_while(Result::ok);
        let fields = fields.filter(|field| field.number == sys_stats::CPUFREQ_KHZ);
        // One packed field for all CPUs, or one field per CPU.
        let all = fields.flat_map(|field| field.as_varints().collect::<Vec<_>>());
        for (cpu, khz) in all.enumerate() {
            self.add(cpu as u32, khz);
        }
    }

    fn add(&mut self, cpu: u32, khz: u64) {
        // Offline CPUs have no frequency.
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
