//! Other machines of a trace: their packets and clock offsets.

use std::collections::BTreeMap;

use ferretto_format::Loss;
use ferretto_format::machine_clock::{MachineClock, exchanges};
use ferretto_format::sequence::PacketHeader;
use ferretto_proto::fields::system_info;
use ferretto_wire::Fields;

use crate::printable::printable;

/// The maximum number of machines.
const MAX_MACHINES: usize = 256;
/// The maximum length of a name, in bytes; longer ones are cut.
const MAX_NAME: usize = 256;

/// A machine other than that of the tracing service.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineSummary {
    /// The machine id in packets.
    pub id: u32,
    /// Its name, if known.
    pub name: String,
    /// The number of its packets.
    pub packets: u64,
    /// The number of its packets that follow a gap.
    pub gaps: u64,
    /// The relation of its boot time to the host's, if measured.
    pub clock: Option<MachineClockSummary>,
}

/// The relation of a machine's clock to the host's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineClockSummary {
    /// The offset by which the machine's clock is ahead, in nanoseconds.
    pub offset_ns: i64,
    /// The maximum error of the offset, in nanoseconds.
    pub error_ns: u64,
    /// The drift, in nanoseconds per second, if there are enough comparisons.
    pub drift_ns_per_s: Option<i64>,
    /// The number of comparisons.
    pub comparisons: usize,
}

#[derive(Debug, Default)]
struct Machine {
    name: String,
    packets: u64,
    gaps: u64,
    clock: MachineClock,
}

/// The machines by id.
#[derive(Debug, Default)]
pub(super) struct Machines(BTreeMap<u32, Machine>);

impl Machines {
    fn get(&mut self, id: u32) -> Option<&mut Machine> {
        if id == 0 || (self.0.len() >= MAX_MACHINES && !self.0.contains_key(&id)) {
            return None;
        }
        Some(self.0.entry(id).or_default())
    }

    /// Counts a packet and gaps before it.
    pub(super) fn note(&mut self, header: &PacketHeader<'_>) {
        // The service's own packets about a machine do not belong to its sequences.
        if header.machine == 0 || header.sequence <= 1 {
            return;
        }
        if let Some(machine) = self.get(header.machine) {
            machine.packets += 1;
            // The service marks the first packet of each writer, because it does not know of
            // earlier ones.
            let is_start = header.is_first && header.loss == Loss::PRESENT;
            machine.gaps += u64::from(!header.loss.is_none() && !is_start);
        }
    }

    /// Reads a `SystemInfo`.
    pub(super) fn describe(&mut self, id: u32, info: &[u8]) {
        let name = Fields::find(system_info::MACHINE_NAME, info).and_then(|field| field.as_bytes());
        if let (Some(machine), Some(name)) = (self.get(id), name) {
            let name = String::from_utf8_lossy(name);
            machine.name = name.chars().take(MAX_NAME).collect();
        }
    }

    /// Reads a `RemoteClockSync`.
    pub(super) fn compare(&mut self, id: u32, sync: &[u8]) {
        if let Some(machine) = self.get(id) {
            machine.clock.add(&exchanges(sync));
        }
    }

    /// Returns the name of a machine, or a substitute.
    pub(super) fn name(&self, id: u32) -> String {
        match self.0.get(&id) {
            Some(machine) if !machine.name.is_empty() => printable(machine.name.as_bytes()),
            _ => format!("machine {id}"),
        }
    }

    pub(super) fn finish(self) -> Vec<MachineSummary> {
        let summary = |(id, machine): (u32, Machine)| {
            let curve = machine.clock.curve();
            let clock = curve.overall().map(|offset| MachineClockSummary {
                offset_ns: offset.offset,
                error_ns: offset.error,
                drift_ns_per_s: curve.drift().map(|drift| drift.round() as i64),
                comparisons: machine.clock.len(),
            });
            MachineSummary {
                id,
                name: machine.name,
                packets: machine.packets,
                gaps: machine.gaps,
                clock,
            }
        };
        self.0.into_iter().map(summary).collect()
    }
}
