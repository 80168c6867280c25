//! Conversion of times between clocks.

use std::collections::BTreeMap;

use ferretto_proto::fields::clock_snapshot::{self, clock};
use ferretto_wire::Fields;

use crate::budget::{Budget, entry_bytes};
use crate::clock::{BOOTTIME, REALTIME, SEQUENCE};

use super::fault::{Fault, FaultSink};

/// The largest number of distinct clocks, which bounds memory on any input.
const MAX_CLOCKS: usize = 1 << 10;

/// The ids below which clocks are looked up by index.
const BUILTIN: usize = 64;

/// A clock of one sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct SequenceClock {
    is_incremental: bool,
    /// The nanoseconds per unit.
    unit: u64,
    /// Simultaneous times of this clock and of another, in nanoseconds.
    here: u64,
    there: u64,
    other: u32,
    /// The last time of an incremental clock.
    last: u64,
}

/// A clock in a snapshot.
#[derive(Debug, Clone, Copy)]
struct Reading {
    clock: u32,
    ns: u64,
    is_incremental: bool,
    unit: u64,
}

/// The clocks of one sequence: rarely more than two, and at most one per [id](SEQUENCE).
#[derive(Debug, Default)]
pub(super) struct SequenceClocks(Vec<(u32, SequenceClock)>);

impl SequenceClocks {
    fn get(&mut self, id: u32) -> Option<&mut SequenceClock> {
        let mut clocks = self.0.iter_mut();
        let (_, clock) = clocks.find(|(known, _)| *known == id)?;
        Some(clock)
    }

    fn insert(&mut self, id: u32, clock: SequenceClock, budget: &Budget) {
        if let Some(known) = self.get(id) {
            *known = clock;
        } else if budget.take(entry_bytes::<(u32, SequenceClock)>()) {
            self.0.push((id, clock));
        }
    }
}

/// The clocks shared by all sequences.
#[derive(Debug)]
pub struct Clocks {
    /// The nanoseconds by which boot time is ahead of each clock: an array for low ids, and a map
    /// for others.
    ahead_of_builtin: [Option<u64>; BUILTIN],
    ahead_of_others: BTreeMap<u32, u64>,
    /// The default clock of packets.
    default: Option<u32>,
    is_converting: bool,
}

impl Clocks {
    /// Creates clocks without any snapshot. Times are converted to boot time, or stay as they were
    /// written.
    pub(super) fn new(is_converting: bool) -> Self {
        Self {
            ahead_of_builtin: [None; BUILTIN],
            ahead_of_others: BTreeMap::new(),
            default: None,
            is_converting,
        }
    }

    /// Returns the default clock of the whole trace, for packets whose sequence has no default
    /// clock.
    pub fn default_clock(&self) -> u32 {
        self.default.unwrap_or(BOOTTIME)
    }

    fn ahead_of(&self, clock: u32) -> Option<u64> {
        match self.ahead_of_builtin.get(clock as usize) {
            Some(ahead) => *ahead,
            None => self.ahead_of_others.get(&clock).copied(),
        }
    }

    fn set_ahead(&mut self, clock: u32, ahead: u64) {
        if let Some(known) = self.ahead_of_builtin.get_mut(clock as usize) {
            *known = Some(ahead);
        } else if self.ahead_of_others.len() < MAX_CLOCKS
            || self.ahead_of_others.contains_key(&clock)
        {
            self.ahead_of_others.insert(clock, ahead);
        }
    }

    /// Reads a `ClockSnapshot`, with the clocks of its sequence and the budget for them.
    pub(super) fn snapshot(
        &mut self,
        bytes: &[u8],
        mut sequence: Option<(&mut SequenceClocks, &Budget)>,
        faults: FaultSink<'_>,
    ) {
        let mut readings: Vec<Reading> = Vec::new();
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                clock_snapshot::CLOCKS => {
                    let reading = Reading::read(field.as_bytes().unwrap_or_default());
                    if readings.iter().any(|other| other.clock == reading.clock) {
                        faults(Fault::SnapshotDuplicate);
                    } else if readings.len() < MAX_CLOCKS {
                        readings.push(reading);
                    }
                }
                clock_snapshot::PRIMARY_TRACE_CLOCK => {
                    let primary = field.as_u32().filter(|clock| *clock != 0);
                    self.default = self.default.or(primary);
                }
                _ => {}
            }
        }
        let of_all = |reading: &&Reading| !SEQUENCE.contains(&reading.clock);
        let boot = readings.iter().find(|reading| reading.clock == BOOTTIME);
        if let Some(boot) = boot {
            for reading in readings.iter().filter(of_all) {
                self.set_ahead(reading.clock, boot.ns.wrapping_sub(reading.ns));
            }
            // A trace without an explicit clock is in boot time.
            self.default = self.default.or(Some(BOOTTIME));
        }
        let other = boot.or_else(|| readings.iter().find(of_all));
        for reading in readings.iter().filter(|reading| !of_all(reading)) {
            match (&mut sequence, other) {
                (None, _) => faults(Fault::SnapshotWithoutSequence),
                (Some((sequence, budget)), Some(other)) => {
                    sequence.insert(reading.clock, reading.beside(other), budget);
                }
                (Some(_), None) => {}
            }
        }
    }

    /// Converts a time on a shared clock to nanoseconds of boot time.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the clock to boot time, or if the result is out of range.
    pub fn to_boot(&self, ns: u64, clock: u32) -> Result<u64, Fault> {
        let ahead = match clock {
            BOOTTIME => 0,
            _ if !self.is_converting => 0,
            clock => self.ahead_of(clock).ok_or(Fault::UnknownClock)?,
        };
        let ns = ns.wrapping_add(ahead);
        i64::try_from(ns).map_err(|_| Fault::InvalidTime)?;
        Ok(ns)
    }

    /// Converts a boot time to nanoseconds since 1970.
    pub fn boot_to_real(&self, ns: u64) -> Option<u64> {
        let ahead = self.ahead_of(REALTIME)?;
        Some(ns.wrapping_sub(ahead))
    }

    /// Converts a time on any clock, in a packet of the sequence with these clocks, to nanoseconds
    /// of boot time.
    pub(super) fn packet_to_boot(
        &self,
        value: u64,
        clock: u32,
        sequence: &mut SequenceClocks,
    ) -> Result<u64, Fault> {
        if !SEQUENCE.contains(&clock) {
            return self.to_boot(value, clock);
        }
        let clock = sequence.get(clock).ok_or(Fault::UnknownClock)?;
        let (ns, clock) = clock.advance(value);
        self.to_boot(ns, clock)
    }
}

impl SequenceClock {
    /// Returns the time on the other clock, and advances this one if it is incremental.
    fn advance(&mut self, value: u64) -> (u64, u32) {
        let mut ns = value.wrapping_mul(self.unit);
        if self.is_incremental {
            ns = self.last.wrapping_add(ns);
            self.last = ns;
        }
        (
            self.there.wrapping_add(ns.wrapping_sub(self.here)),
            self.other,
        )
    }
}

impl Reading {
    fn read(bytes: &[u8]) -> Self {
        let mut reading = Self {
            clock: 0,
            ns: 0,
            is_incremental: false,
            unit: 1,
        };
        for field in Fields::new(bytes).map_while(Result::ok) {
            let value = field.as_u64().unwrap_or(0);
            match field.number {
                clock::CLOCK_ID => reading.clock = value as u32,
                clock::TIMESTAMP => reading.ns = value,
                clock::IS_INCREMENTAL => reading.is_incremental = value != 0,
                clock::UNIT_MULTIPLIER_NS => reading.unit = value.max(1),
                _ => {}
            }
        }
        reading.ns = reading.ns.wrapping_mul(reading.unit);
        reading
    }

    fn beside(&self, other: &Self) -> SequenceClock {
        SequenceClock {
            is_incremental: self.is_incremental,
            unit: self.unit,
            here: self.ns,
            there: other.ns,
            other: other.clock,
            last: self.ns,
        }
    }
}
