//! Bundles of kernel events: their CPU and their times.

use ferretto_proto::views::FtraceEventBundleView;
use ferretto_proto::views::ftrace_clock::{
    FTRACE_CLOCK_GLOBAL, FTRACE_CLOCK_LOCAL, FTRACE_CLOCK_MONO_RAW,
};

use crate::clock::MONOTONIC_RAW;
use crate::sequence::Clocks;

/// The header of a `FtraceEventBundle`.
#[derive(Debug, Clone, Copy, Default)]
pub struct BundleHeader {
    /// The CPU of all its events.
    pub cpu: Option<u32>,
    /// The boot time since which the events of the CPU are complete, if this is its first bundle.
    pub begin: Option<u64>,
    /// The difference between boot time and times in the bundle.
    shift: u64,
}

impl BundleHeader {
    /// Reads the header of a machine's bundle, with the clocks of the trace so far.
    pub fn read(bytes: &[u8], machine: u32, clocks: &Clocks) -> Self {
        Self::of(&FtraceEventBundleView::read(bytes), machine, clocks)
    }

    /// Returns the header of a machine's bundle, with the clocks of the trace so far.
    pub fn of(bundle: &FtraceEventBundleView<'_>, machine: u32, clocks: &Clocks) -> Self {
        let shift = match bundle.ftrace_clock.unwrap_or(0) {
            FTRACE_CLOCK_GLOBAL | FTRACE_CLOCK_LOCAL => {
                let boot = bundle.boot_timestamp.unwrap_or(0) as u64;
                boot.wrapping_sub(bundle.ftrace_timestamp.unwrap_or(0) as u64)
            }
            FTRACE_CLOCK_MONO_RAW => {
                let raw = bundle.ftrace_timestamp.map_or(1 << 40, |time| time as u64);
                let boot = clocks.to_boot(machine, raw, MONOTONIC_RAW);
                boot.unwrap_or(raw).wrapping_sub(raw)
            }
            _ => 0,
        };
        let begin = bundle.previous_bundle_end_timestamp;
        let begin = begin.or(bundle.last_read_event_timestamp);
        let begin = begin.map(|time| match time {
            0 => 0,
            time => time.wrapping_add(shift),
        });
        Self {
            cpu: bundle.cpu,
            begin,
            shift,
        }
    }

    /// Converts a time in the bundle to boot time.
    #[inline]
    pub fn to_boot(&self, time: u64) -> u64 {
        time.wrapping_add(self.shift)
    }
}
