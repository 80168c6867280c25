//! The clocks of the packets of a trace.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::budget::{Budget, entry_bytes};
use crate::clock::{BOOTTIME, REALTIME, SEQUENCE};
use crate::clock_graph::{ClockGraph, ClockId, ClockSnapshot};

use super::fault::{Fault, FaultSink};

/// The largest number of machines with clocks of their own, which bounds memory on any input.
const MAX_MACHINES: usize = 1 << 10;

/// The clocks of one sequence, each with the shared clock to which its snapshot relates it: rarely
/// more than two, and at most one per [id](SEQUENCE).
#[derive(Debug)]
pub(super) struct SequenceClocks {
    /// The id of the sequence.
    id: u32,
    clocks: Vec<(u32, ClockId)>,
}

impl SequenceClocks {
    pub(super) fn new(id: u32) -> Self {
        Self {
            id,
            clocks: Vec::new(),
        }
    }

    fn get(&self, id: u32) -> Option<ClockId> {
        let mut clocks = self.clocks.iter();
        let (_, shared) = clocks.find(|(known, _)| *known == id)?;
        Some(*shared)
    }

    fn insert(&mut self, id: u32, shared: ClockId, budget: &Budget) {
        if let Some((_, known)) = self.clocks.iter_mut().find(|(known, _)| *known == id) {
            *known = shared;
        } else if budget.take(entry_bytes::<(u32, ClockId)>()) {
            self.clocks.push((id, shared));
        }
    }
}

/// The clocks of a trace, with the clock to which readers convert times.
#[derive(Debug)]
pub struct Clocks {
    /// Lookups remember what they found.
    graph: RefCell<ClockGraph>,
    /// The clock that times are converted to: boot time, or the trace's own clock if its first
    /// snapshot has no boot time.
    base: u32,
    has_snapshot: bool,
    /// The machines with snapshots. Packets of others are on the clocks of the host.
    machines: BTreeSet<u32>,
    is_converting: bool,
}

impl Clocks {
    /// Creates clocks without any snapshot. Times are converted to boot time, or stay as they were
    /// written.
    pub(crate) fn new(is_converting: bool) -> Self {
        Self {
            graph: RefCell::default(),
            base: BOOTTIME,
            has_snapshot: false,
            machines: BTreeSet::new(),
            is_converting,
        }
    }

    /// Returns the default clock of a machine, for packets whose sequence has no default clock.
    pub fn default_clock(&self, machine: u32) -> u32 {
        let graph = self.graph.borrow();
        let default = graph.default_clock(self.machine(machine));
        default.map_or(BOOTTIME, |clock| clock.id)
    }

    /// Returns the clock that times are converted to: boot time, or the trace's own clock if its
    /// first snapshot has no boot time.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Returns the machine whose snapshots apply to a machine.
    #[inline]
    fn machine(&self, machine: u32) -> u32 {
        if machine == 0 || self.machines.contains(&machine) {
            machine
        } else {
            0
        }
    }

    /// Reads a `ClockSnapshot` of a machine, with the clocks of its sequence and the budget for
    /// them.
    pub(super) fn snapshot(
        &mut self,
        machine: u32,
        bytes: &[u8],
        sequence: Option<(&mut SequenceClocks, &Budget)>,
        faults: FaultSink<'_>,
    ) {
        let id = sequence.as_ref().map_or(0, |(of, _)| of.id);
        let ClockSnapshot { readings, primary } = ClockSnapshot::read(bytes, machine, id, 0);
        if self.machines.len() < MAX_MACHINES {
            self.machines.insert(machine);
        }
        let graph = self.graph.get_mut();
        if let Some(primary) = primary {
            graph.set_default(primary);
            graph.set_trace_clock(primary, 0);
        }
        let has = |id| readings.iter().any(|reading| reading.clock.id == id);
        if let Some(primary) = primary
            && !self.has_snapshot
            && !has(BOOTTIME)
            && has(primary.id)
        {
            self.base = primary.id;
        }
        self.has_snapshot |= has(self.base);
        let mut known = BTreeSet::new();
        for reading in &readings {
            if !known.insert(reading.clock) {
                faults(Fault::SnapshotDuplicate);
            }
        }
        graph.add(&readings);
        let of_sequence = |id: u32| SEQUENCE.contains(&id);
        let base = readings.iter().find(|one| one.clock.id == self.base);
        let shared = base.or_else(|| readings.iter().find(|one| !of_sequence(one.clock.id)));
        let clocks = readings.iter().filter(|one| of_sequence(one.clock.id));
        match sequence {
            None => clocks.for_each(|_| faults(Fault::SnapshotWithoutSequence)),
            Some((sequence, budget)) => {
                for clock in clocks {
                    if let Some(shared) = shared {
                        sequence.insert(clock.clock.id, shared.clock, budget);
                    }
                }
            }
        }
    }

    /// Converts a time on a shared clock of a machine to nanoseconds of boot time.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the clock to boot time, or if the result is out of range.
    #[inline]
    pub fn to_boot(&self, machine: u32, ns: u64, clock: u32) -> Result<u64, Fault> {
        if clock == self.base || !self.is_converting {
            i64::try_from(ns).map_err(|_| Fault::InvalidTime)?;
            return Ok(ns);
        }
        let machine = self.machine(machine);
        let base = ClockId::of_machine(machine, self.base);
        self.convert(ClockId::of_machine(machine, clock), ns, base)
    }

    /// Converts a boot time of the host to nanoseconds since 1970.
    pub fn boot_to_real(&self, ns: u64) -> Option<u64> {
        let [base, real] = [self.base, REALTIME].map(|id| ClockId::of_machine(0, id));
        self.convert(base, ns, real).ok()
    }

    /// Converts a time on any clock, in a packet of the sequence with these clocks, to nanoseconds
    /// of boot time.
    #[inline]
    pub(super) fn packet_to_boot(
        &self,
        machine: u32,
        value: u64,
        clock: u32,
        sequence: &SequenceClocks,
    ) -> Result<u64, Fault> {
        if !SEQUENCE.contains(&clock) {
            return self.to_boot(machine, value, clock);
        }
        let shared = sequence.get(clock).ok_or(Fault::UnknownClock)?;
        let from = ClockId {
            id: clock,
            sequence: sequence.id,
            file: 0,
            machine: shared.machine,
        };
        let to = if self.is_converting {
            ClockId::of_machine(shared.machine, self.base)
        } else {
            shared
        };
        self.convert(from, value, to)
    }

    fn convert(&self, from: ClockId, value: u64, to: ClockId) -> Result<u64, Fault> {
        let ns = self.graph.borrow_mut().convert(from, value as i64, to);
        let ns = ns.map_err(|_| Fault::UnknownClock)?;
        u64::try_from(ns).map_err(|_| Fault::InvalidTime)
    }
}
