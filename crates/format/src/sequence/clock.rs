//! Conversion of times between clocks.

use std::collections::BTreeMap;

use ferretto_proto::fields::clock_snapshot::{self, clock};
use ferretto_wire::Fields;

use crate::budget::{Budget, entry_bytes};
use crate::clock::{BOOTTIME, REALTIME, SEQUENCE};
use crate::hash::Fnv1a;

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
#[derive(Debug)]
pub(super) struct SequenceClocks {
    /// The id of the sequence.
    id: u32,
    clocks: Vec<(u32, SequenceClock)>,
}

impl SequenceClocks {
    pub(super) fn new(id: u32) -> Self {
        Self {
            id,
            clocks: Vec::new(),
        }
    }

    fn get(&mut self, id: u32) -> Option<&mut SequenceClock> {
        let mut clocks = self.clocks.iter_mut();
        let (_, clock) = clocks.find(|(known, _)| *known == id)?;
        Some(clock)
    }

    fn insert(&mut self, id: u32, clock: SequenceClock, budget: &Budget) {
        if let Some(known) = self.get(id) {
            *known = clock;
        } else if budget.take(entry_bytes::<(u32, SequenceClock)>()) {
            self.clocks.push((id, clock));
        }
    }
}

/// The clocks shared by all sequences.
#[derive(Debug)]
pub struct Clocks {
    /// The nanoseconds by which boot time is ahead of each clock: an array for low ids, and a map
    /// for others.
    ahead_of_builtin: [Ahead; BUILTIN],
    ahead_of_others: BTreeMap<u32, Ahead>,
    /// The clock that times are converted to: boot time, or the trace's own clock if its first
    /// snapshot has no boot time.
    base: u32,
    /// The default clock of packets.
    default: Option<u32>,
    is_converting: bool,
}

impl Clocks {
    /// Creates clocks without any snapshot. Times are converted to boot time, or stay as they were
    /// written.
    pub(super) fn new(is_converting: bool) -> Self {
        Self {
            ahead_of_builtin: [const { Ahead::new() }; BUILTIN],
            ahead_of_others: BTreeMap::new(),
            base: BOOTTIME,
            default: None,
            is_converting,
        }
    }

    /// Returns the default clock of the whole trace, for packets whose sequence has no default
    /// clock.
    pub fn default_clock(&self) -> u32 {
        self.default.unwrap_or(BOOTTIME)
    }

    /// Returns the clock that times are converted to: boot time, or the trace's own clock if its
    /// first snapshot has no boot time.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Returns how far boot time is ahead of a clock at a time on it.
    #[inline]
    fn ahead_of(&self, clock: u32, ns: u64) -> Option<u64> {
        match self.ahead_of_builtin.get(clock as usize) {
            Some(ahead) => ahead.at(ns),
            None => self.ahead_of_others.get(&clock)?.at(ns),
        }
    }

    fn set_ahead(&mut self, kind: u64, clock: u32, ns: u64, ahead: u64) {
        if let Some(known) = self.ahead_of_builtin.get_mut(clock as usize) {
            known.add(kind, ns, ahead);
        } else if self.ahead_of_others.len() < MAX_CLOCKS
            || self.ahead_of_others.contains_key(&clock)
        {
            let known = self.ahead_of_others.entry(clock);
            known.or_insert(Ahead::new()).add(kind, ns, ahead);
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
        let find = |clock| readings.iter().find(|reading| reading.clock == clock);
        let is_first = self.ahead_of_builtin[BOOTTIME as usize].readings.is_empty();
        if let Some(primary) = self.default
            && is_first
            && self.base == BOOTTIME
            && find(BOOTTIME).is_none()
            && find(primary).is_some()
        {
            self.base = primary;
        }
        let boot = find(self.base);
        if let Some(boot) = boot {
            let of_sequence = sequence.as_ref().map_or(0, |(of, _)| of.id);
            let kind = kind_of(&readings, of_sequence);
            for reading in readings.iter().filter(of_all) {
                let ahead = boot.ns.wrapping_sub(reading.ns);
                self.set_ahead(kind, reading.clock, reading.ns, ahead);
            }
            // A trace without an explicit clock is in boot time.
            self.default = self.default.or(Some(self.base));
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
            clock if clock == self.base => 0,
            _ if !self.is_converting => 0,
            clock => self.ahead_of(clock, ns).ok_or(Fault::UnknownClock)?,
        };
        let ns = ns.wrapping_add(ahead);
        i64::try_from(ns).map_err(|_| Fault::InvalidTime)?;
        Ok(ns)
    }

    /// Converts a boot time to nanoseconds since 1970.
    pub fn boot_to_real(&self, ns: u64) -> Option<u64> {
        let ahead = self.ahead_of_builtin.get(REALTIME as usize)?;
        Some(ns.wrapping_sub(ahead.of_boot(ns)?))
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

/// Returns the kind of a snapshot: its clocks, with the sequence of those that belong to one.
fn kind_of(readings: &[Reading], sequence: u32) -> u64 {
    let mut kind = Fnv1a::new();
    for reading in readings {
        kind = kind.update(&reading.clock.to_ne_bytes());
        if SEQUENCE.contains(&reading.clock) {
            kind = kind.update(&sequence.to_ne_bytes());
        }
    }
    kind.finish()
}

/// The differences between boot time and a clock, since each of its readings.
///
/// A time is converted by the last reading before it, or by the first one. Packets may be read
/// after snapshots that are newer than they are. As in the tables, only snapshots of the first kind
/// count: those of the same clocks.
#[derive(Debug)]
struct Ahead {
    kind: u64,
    /// Times of the clock, and how far boot time is ahead of it.
    readings: Vec<(u64, u64)>,
}

/// The maximum number of stored changes of a clock. Beyond it, the newest replaces the one before.
const MAX_CHANGES: usize = 1 << 12;

impl Ahead {
    const fn new() -> Self {
        Self {
            kind: 0,
            readings: Vec::new(),
        }
    }

    /// Adds a reading. Readings that change nothing are not stored.
    fn add(&mut self, kind: u64, ns: u64, ahead: u64) {
        if self.readings.is_empty() {
            self.kind = kind;
        } else if self.kind != kind {
            return;
        }
        let is_full = self.readings.len() >= MAX_CHANGES;
        match self.readings.last_mut() {
            Some((_, known)) if *known == ahead => {}
            // The clock was set back.
            Some((last, _)) if ns < *last => self.readings = vec![(ns, ahead)],
            Some(last) if is_full => *last = (ns, ahead),
            _ => self.readings.push((ns, ahead)),
        }
    }

    #[inline]
    fn at(&self, ns: u64) -> Option<u64> {
        let (last, ahead) = *self.readings.last()?;
        if ns >= last || self.readings.len() == 1 {
            return Some(ahead);
        }
        self.before(|(since, _)| since <= ns)
    }

    /// Returns the difference at a boot time.
    fn of_boot(&self, boot: u64) -> Option<u64> {
        self.before(|(since, ahead)| since.wrapping_add(ahead) <= boot)
    }

    /// Returns the last difference that is `before`, or the first one.
    fn before(&self, before: impl Fn((u64, u64)) -> bool) -> Option<u64> {
        let next = self.readings.partition_point(|reading| before(*reading));
        let (_, ahead) = self.readings.get(next.saturating_sub(1))?;
        Some(*ahead)
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
