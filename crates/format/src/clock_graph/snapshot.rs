//! Clocks, and their readings in a snapshot.

use ferretto_proto::views::ClockSnapshotView;
use ferretto_proto::views::clock_snapshot::ClockView;

use crate::clock::{BOOTTIME, SEQUENCE};

/// A clock of the whole trace, of a machine, or of a sequence of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockId {
    /// The clock id in the trace.
    pub id: u32,
    /// The sequence of the clock, or 0.
    pub sequence: u32,
    /// The file of the clock, or 0.
    pub file: u32,
    /// The machine.
    pub machine: u32,
}

impl ClockId {
    /// Returns a clock of a machine.
    #[inline]
    pub fn of_machine(machine: u32, id: u32) -> Self {
        Self {
            id,
            sequence: 0,
            file: 0,
            machine,
        }
    }

    /// Returns true if clocks with this id belong to sequences.
    #[inline]
    pub fn is_of_sequence(id: u32) -> bool {
        SEQUENCE.contains(&id)
    }
}

/// The id of the default clock of a file.
pub const TRACE_FILE: u32 = 11;

/// A clock at the moment of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The clock.
    pub clock: ClockId,
    /// Its time, in units.
    pub value: i64,
    /// The nanoseconds of one unit.
    pub unit: i64,
    /// True if each time is the difference from the one before.
    pub is_incremental: bool,
}

impl Reading {
    /// Returns a reading of a clock in nanoseconds.
    pub fn new(clock: ClockId, value: i64) -> Self {
        Self {
            clock,
            value,
            unit: 1,
            is_incremental: false,
        }
    }
}

/// A `ClockSnapshot`.
#[derive(Debug, Clone)]
pub struct ClockSnapshot {
    /// The clocks.
    pub readings: Vec<Reading>,
    /// The clock that it declares to be that of the trace.
    pub primary: Option<ClockId>,
}

impl ClockSnapshot {
    /// Reads a snapshot of a sequence, in a file.
    pub fn read(bytes: &[u8], machine: u32, sequence: u32, file: u32) -> Self {
        let snapshot = ClockSnapshotView::read(bytes);
        let readings = snapshot.clocks.iter().map(|clock| {
            let clock = ClockView::read(clock);
            let mut id = ClockId::of_machine(machine, clock.clock_id.unwrap_or(0));
            if ClockId::is_of_sequence(id.id) {
                (id.sequence, id.file) = (sequence, file);
            }
            Reading {
                clock: id,
                value: clock.timestamp.unwrap_or(0) as i64,
                unit: clock.unit_multiplier_ns.unwrap_or(1).max(1) as i64,
                is_incremental: clock.is_incremental.unwrap_or(false),
            }
        });
        let readings: Vec<Reading> = readings.collect();
        let has = |id| readings.iter().any(|reading| reading.clock.id == id);
        let primary = match snapshot.primary_trace_clock.unwrap_or(0) {
            // A trace without an explicit clock is in boot time.
            0 => (has(BOOTTIME) && !has(TRACE_FILE)).then_some(BOOTTIME),
            primary => Some(primary as u32),
        };
        Self {
            readings,
            primary: primary.map(|id| ClockId::of_machine(machine, id)),
        }
    }

    /// Returns the time of a clock, in its units.
    pub fn time_of(&self, clock: u32) -> Option<u64> {
        let mut readings = self.readings.iter();
        let reading = readings.find(|reading| reading.clock.id == clock)?;
        Some(reading.value as u64)
    }
}
