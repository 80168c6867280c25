//! Times on many clocks, on one.

use std::collections::BTreeMap;

use ferretto_proto::fields::clock_snapshot::{self, clock};
use ferretto_wire::Fields;

use crate::budget::{Budget, entry_bytes};
use crate::clock::{BOOTTIME, REALTIME, SEQUENCE};

use super::fault::{Fault, FaultSink};

/// Clocks beyond this number are not faults apart, so that memory stays bounded on any input.
const MAX_CLOCKS: usize = 1 << 10;

/// A clock that the packets of one sequence use.
#[derive(Debug, Clone, Copy)]
pub(super) struct SequenceClock {
    is_incremental: bool,
    /// Nanoseconds.
    unit: u64,
    /// Nanoseconds of this clock and of another at one moment.
    here: u64,
    there: u64,
    other: u32,
    /// Where an incremental clock stands.
    last: u64,
}

/// One clock in a snapshot.
#[derive(Debug, Clone, Copy)]
struct Reading {
    clock: u32,
    ns: u64,
    is_incremental: bool,
    unit: u64,
}

/// Clocks of a sequence alone, by number.
type OfSequence = BTreeMap<u32, SequenceClock>;

/// Clocks of all sequences.
#[derive(Debug, Default)]
pub struct Clocks {
    /// How far boot time is ahead of each.
    ahead: BTreeMap<u32, u64>,
    start: Option<u64>,
}

impl Clocks {
    /// Returns the boot time of the first snapshot, in nanoseconds.
    pub fn start(&self) -> Option<u64> {
        self.start
    }

    /// Reads a `ClockSnapshot`, with the clocks of the sequence it came in and what they may take.
    pub(super) fn snapshot(
        &mut self,
        bytes: &[u8],
        mut sequence: Option<(&mut OfSequence, &Budget)>,
        faults: FaultSink<'_>,
    ) {
        let mut readings: Vec<Reading> = Vec::new();
        let clocks = Fields::new(bytes).map_while(Result::ok);
        for clock in clocks.filter(|field| field.number == clock_snapshot::CLOCKS) {
            let reading = Reading::read(clock.as_bytes().unwrap_or_default());
            if readings.iter().any(|other| other.clock == reading.clock) {
                faults(Fault::SnapshotDuplicate);
            } else if readings.len() < MAX_CLOCKS {
                readings.push(reading);
            }
        }
        let of_all = |reading: &&Reading| !SEQUENCE.contains(&reading.clock);
        let boot = readings.iter().find(|reading| reading.clock == BOOTTIME);
        self.start = self.start.or(boot.map(|boot| boot.ns));
        for reading in readings.iter().filter(of_all) {
            if let Some(boot) = boot
                && (self.ahead.len() < MAX_CLOCKS || self.ahead.contains_key(&reading.clock))
            {
                self.ahead
                    .insert(reading.clock, boot.ns.wrapping_sub(reading.ns));
            }
        }
        let other = boot.or_else(|| readings.iter().find(of_all));
        for reading in readings.iter().filter(|reading| !of_all(reading)) {
            match (&mut sequence, other) {
                (None, _) => faults(Fault::SnapshotWithoutSequence),
                (Some((sequence, budget)), Some(other)) => {
                    if sequence.contains_key(&reading.clock)
                        || budget.take(entry_bytes::<SequenceClock>())
                    {
                        sequence.insert(reading.clock, reading.beside(other));
                    }
                }
                (Some(_), None) => {}
            }
        }
    }

    /// Converts a time on a clock that all sequences share to nanoseconds of boot time.
    ///
    /// # Errors
    ///
    /// If no snapshot relates the clock to boot time, or the result is no time.
    pub fn to_boot(&self, ns: u64, clock: u32) -> Result<u64, Fault> {
        let ahead = match clock {
            BOOTTIME => 0,
            clock => *self.ahead.get(&clock).ok_or(Fault::UnknownClock)?,
        };
        let ns = ns.wrapping_add(ahead);
        i64::try_from(ns).map_err(|_| Fault::InvalidTime)?;
        Ok(ns)
    }

    /// A boot time in nanoseconds since 1970.
    pub fn boot_to_real(&self, ns: u64) -> Option<u64> {
        let ahead = *self.ahead.get(&REALTIME)?;
        Some(ns.wrapping_sub(ahead))
    }

    /// A time on any clock, as a packet of the sequence with these clocks says it, in nanoseconds of boot time.
    pub(super) fn packet_to_boot(
        &self,
        value: u64,
        clock: u32,
        sequence: &mut OfSequence,
    ) -> Result<u64, Fault> {
        if !SEQUENCE.contains(&clock) {
            return self.to_boot(value, clock);
        }
        let clock = sequence.get_mut(&clock).ok_or(Fault::UnknownClock)?;
        let (ns, clock) = clock.advance(value);
        self.to_boot(ns, clock)
    }
}

impl SequenceClock {
    /// The time on the other clock, after a packet with this one.
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
        let number = |field| Fields::find(field, bytes).and_then(|field| field.as_u64());
        let unit = number(clock::UNIT_MULTIPLIER_NS).unwrap_or(1);
        let unit = unit.max(1);
        Self {
            clock: number(clock::CLOCK_ID).unwrap_or(0) as u32,
            ns: number(clock::TIMESTAMP).unwrap_or(0).wrapping_mul(unit),
            is_incremental: number(clock::IS_INCREMENTAL).unwrap_or(0) != 0,
            unit,
        }
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
