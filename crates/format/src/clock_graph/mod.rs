//! Clocks and their relations: which time on one clock is which on another.
//!
//! A snapshot has simultaneous readings of several clocks. Snapshots of the same clocks are of one
//! *kind*. A time is converted along the shortest path of kinds between two clocks: each step uses
//! the last reading before the time, or the first one. The rules are those of upstream's trace
//! processor. All readers of traces use this graph, so that a packet has one time.

mod path;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use self::snapshot::{ClockId, ClockSnapshot, Reading, TRACE_FILE};

use self::path::Step;
use crate::clock::{BOOTTIME, REALTIME};

/// The reason why a time cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockError {
    /// No snapshot has the clock of the time.
    UnknownSource,
    /// No snapshot has the other clock.
    UnknownTarget,
    /// No snapshots relate the two clocks.
    NoPath,
}

/// The maximum number of clocks, to bound memory.
const MAX_CLOCKS: usize = 1 << 14;
/// The maximum number of clocks of a snapshot.
pub const MAX_READINGS: usize = 128;
/// The maximum number of clocks of all kinds of snapshots, to bound memory.
const MAX_OF_KINDS: usize = 1 << 18;
/// The maximum number of stored readings, to bound memory. Beyond it, the newest snapshot of a kind
/// replaces the one before.
const MAX_STORED: usize = 1 << 20;
/// The number of recently used translations.
const FAST: usize = 64;
/// The number of known translations.
const CACHED: usize = 16;

/// The clocks of the trace and their relations.
#[derive(Debug)]
pub struct ClockGraph {
    clocks: BTreeMap<ClockId, Clock>,
    /// Clocks that were set back. Their times are not converted.
    not_monotonic: BTreeSet<ClockId>,
    /// The kinds of snapshots, by their clocks.
    kinds: BTreeMap<Arc<[ClockId]>, u32>,
    clocks_of_kinds: Vec<Arc<[ClockId]>>,
    /// The number of clocks of all kinds.
    of_kinds: usize,
    /// The number of stored readings.
    stored: usize,
    snapshots: u32,
    /// The number of relations that searches have examined.
    examined: usize,
    cache: Vec<Translation>,
    /// Recently used translations, by clock.
    fast: Vec<Option<Fast>>,
    /// Recent conversions that failed, by clock.
    failed: Vec<Option<(ClockId, ClockId, ClockError)>>,
    /// The last values of incremental clocks, by [`Clock::index`].
    last: Vec<i64>,
    /// The clock of the trace.
    trace_clock: ClockId,
    /// The file that determined the clock.
    chooser: Option<u32>,
    /// The default clock of packets, by machine.
    defaults: BTreeMap<u32, ClockId>,
    /// Machines whose clocks are not related to the trace clock yet.
    unrelated: BTreeSet<u32>,
    /// The clock of the current file, if it applies to the whole file, and true if it was related
    /// to the trace clock.
    of_file: Option<(ClockId, bool)>,
    /// The snapshots of pairs of clocks that were assumed to be equal.
    assumed: Vec<(u32, [ClockId; 2])>,
    /// Pairs of clocks without a relation.
    unrelated_pairs: Vec<[u32; 2]>,
    is_frozen: bool,
}

#[derive(Debug, Default)]
struct Clock {
    /// The readings by kind of snapshot.
    readings: BTreeMap<u32, Readings>,
    unit: i64,
    is_incremental: bool,
    /// The index of its last value.
    index: u32,
    /// The kinds of valid snapshots that have the clock, in ascending order.
    kinds: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct Readings {
    snapshots: Vec<u32>,
    values: Vec<i64>,
}

impl Readings {
    fn push(&mut self, snapshot: u32, ns: i64, replaces: bool) {
        if replaces {
            self.snapshots.pop();
            self.values.pop();
        }
        self.snapshots.push(snapshot);
        self.values.push(ns);
    }
}

/// A constant difference between two clocks.
#[derive(Debug, Clone, Copy)]
struct Translation {
    from: ClockId,
    to: ClockId,
    begin: i64,
    end: i64,
    ahead: i64,
}

/// A translation, and properties of its clock.
#[derive(Debug, Clone, Copy)]
struct Fast {
    translation: Translation,
    unit: i64,
    is_incremental: bool,
    index: u32,
}

impl Default for ClockGraph {
    fn default() -> Self {
        Self {
            clocks: BTreeMap::new(),
            not_monotonic: BTreeSet::new(),
            kinds: BTreeMap::new(),
            clocks_of_kinds: Vec::new(),
            of_kinds: 0,
            stored: 0,
            snapshots: 0,
            examined: 0,
            cache: Vec::new(),
            fast: vec![None; FAST],
            failed: vec![None; FAST],
            last: Vec::new(),
            trace_clock: ClockId::of_machine(0, TRACE_FILE),
            chooser: None,
            defaults: BTreeMap::new(),
            unrelated: BTreeSet::from([0]),
            of_file: None,
            assumed: Vec::new(),
            unrelated_pairs: Vec::new(),
            is_frozen: false,
        }
    }
}

impl ClockGraph {
    /// Returns the default clock of packets of a machine.
    #[inline]
    pub fn default_clock(&self, machine: u32) -> Option<ClockId> {
        self.defaults.get(&machine).copied()
    }

    /// Sets the default clock of packets of a machine.
    pub fn set_default(&mut self, clock: ClockId) {
        if self.defaults.len() < MAX_CLOCKS || self.defaults.contains_key(&clock.machine) {
            self.defaults.insert(clock.machine, clock);
        }
    }

    /// Sets the trace clock. Returns false if it cannot change any more, because times were
    /// converted or another file determined it.
    pub fn set_trace_clock(&mut self, clock: ClockId, file: u32) -> bool {
        if self.is_frozen || self.chooser.is_some_and(|chooser| chooser != file) {
            return false;
        }
        self.chooser = Some(file);
        self.trace_clock = clock;
        true
    }

    /// Returns the trace clock.
    #[inline]
    pub fn trace_clock(&self) -> ClockId {
        self.trace_clock
    }

    /// Sets the clock of the current file, if it applies to the whole file.
    pub fn set_file_clock(&mut self, clock: Option<ClockId>) {
        self.of_file = clock.map(|clock| (clock, false));
    }

    /// Converts a time of the current file to the trace clock. A file without a clock uses the
    /// trace clock.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the two clocks.
    pub fn file_time(&mut self, value: i64) -> Result<i64, (ClockError, ClockId)> {
        let Some((clock, is_related)) = self.of_file else {
            return Ok(value);
        };
        self.is_frozen = true;
        if !is_related {
            self.of_file = Some((clock, true));
            self.bridge(clock);
        }
        self.convert(clock, value, self.trace_clock)
            .map_err(|error| (error, clock))
    }

    /// Relates the clocks of a machine to the trace clock before the next conversion.
    pub fn relate_later(&mut self, machine: u32) {
        if self.unrelated.len() < MAX_CLOCKS {
            self.unrelated.insert(machine);
        }
    }

    /// Removes and returns the snapshots of clocks that were assumed to be equal.
    pub fn take_assumed(&mut self) -> Vec<(u32, [ClockId; 2])> {
        std::mem::take(&mut self.assumed)
    }

    /// Removes and returns the pairs of clocks that have no relation.
    pub fn take_unrelated_pairs(&mut self) -> Vec<[u32; 2]> {
        std::mem::take(&mut self.unrelated_pairs)
    }

    /// Converts a time to the trace clock.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the two clocks.
    #[inline]
    pub fn trace_time(&mut self, clock: ClockId, value: i64) -> Result<i64, ClockError> {
        self.is_frozen = true;
        // Events on the trace clock itself need no relation of their machine's clocks to it.
        let needs_relation = !self.unrelated.is_empty() && clock != self.trace_clock;
        if needs_relation && self.unrelated.remove(&clock.machine) {
            self.bridge(ClockId::of_machine(clock.machine, BOOTTIME));
        }
        self.convert(clock, value, self.trace_clock)
    }

    /// Converts a time to another clock, and advances the clock if it is incremental.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the two clocks.
    #[inline]
    pub fn convert(&mut self, from: ClockId, value: i64, to: ClockId) -> Result<i64, ClockError> {
        if from == to {
            return Ok(value);
        }
        // By reference and field by field: this is done for each packet.
        if let Some(fast) = &self.fast[slot(from)]
            && fast.translation.from == from
            && fast.translation.to == to
        {
            let mut ns = value.wrapping_mul(fast.unit);
            let last = &mut self.last[fast.index as usize];
            if fast.is_incremental {
                ns = ns.wrapping_add(*last);
            }
            if ns >= fast.translation.begin && ns < fast.translation.end {
                if fast.is_incremental {
                    *last = ns;
                }
                return Ok(ns.wrapping_add(fast.translation.ahead));
            }
        }
        self.look_up(from, value, to)
    }

    #[cold]
    fn look_up(&mut self, from: ClockId, value: i64, to: ClockId) -> Result<i64, ClockError> {
        if let Some((failed, other, error)) = self.failed[slot(from)]
            && (failed, other) == (from, to)
        {
            return Err(error);
        }
        let path = self.path(from, to);
        let path = path.inspect_err(|error| self.failed[slot(from)] = Some((from, to, *error)))?;
        let Some(clock) = self.clocks.get(&from) else {
            return Err(ClockError::UnknownSource);
        };
        let (is_incremental, unit, index) = (clock.is_incremental, clock.unit, clock.index);
        let mut ns = value.wrapping_mul(unit);
        if is_incremental {
            let last = &mut self.last[index as usize];
            ns = last.wrapping_add(ns);
            *last = ns;
        }
        let fast = |translation| Fast {
            translation,
            unit,
            is_incremental,
            index,
        };
        let known = self
            .cache
            .iter()
            .position(|one| (one.from, one.to) == (from, to) && ns >= one.begin && ns < one.end);
        if let Some(known) = known {
            self.cache.swap(0, known);
            self.fast[slot(from)] = Some(fast(self.cache[0]));
            return Ok(ns.wrapping_add(self.cache[0].ahead));
        }
        let translation = self.translation(from, ns, to, &path)?;
        self.cache.truncate(CACHED - 1);
        self.cache.push(translation);
        let last = self.cache.len() - 1;
        self.cache.swap(0, last);
        self.fast[slot(from)] = Some(fast(translation));
        Ok(ns.wrapping_add(translation.ahead))
    }

    /// Returns the difference between two clocks at a time, with the times to which it applies.
    fn translation(
        &self,
        from: ClockId,
        ns: i64,
        to: ClockId,
        path: &[Step],
    ) -> Result<Translation, ClockError> {
        let (mut begin, mut end, mut ahead) = (i64::MIN, i64::MAX, 0_i64);
        for (one, other, kind) in path {
            let readings = |clock| self.clocks.get(clock)?.readings.get(kind);
            let (Some(one), Some(other)) = (readings(one), readings(other)) else {
                return Err(ClockError::NoPath);
            };
            let at = ns.wrapping_add(ahead);
            let behind = one.values.partition_point(|value| *value <= at);
            let index = behind.saturating_sub(1);
            let Some(snapshot) = one.snapshots.get(index) else {
                return Err(ClockError::NoPath);
            };
            let Ok(same) = other.snapshots.binary_search(snapshot) else {
                return Err(ClockError::NoPath);
            };
            if index > 0 {
                begin = begin.max(one.values[index].wrapping_sub(ahead));
            }
            if let Some(next) = one.values.get(index + 1) {
                end = end.min(next.wrapping_sub(ahead));
            }
            let step = other.values[same].wrapping_sub(one.values[index]);
            ahead = ahead.wrapping_add(step);
        }
        Ok(Translation {
            from,
            to,
            begin,
            end,
            ahead,
        })
    }

    /// Adds the values of a snapshot, and returns its id; `None` if it is invalid.
    pub fn add(&mut self, readings: &[Reading]) -> Option<u32> {
        let readings = &readings[..readings.len().min(MAX_READINGS)];
        let snapshot = self.snapshots;
        self.snapshots += 1;
        self.cache.clear();
        self.fast.fill(None);
        self.failed.fill(None);
        let kind = self.kind_of(readings)?;
        let is_full = self.stored + readings.len() > MAX_STORED;
        for reading in readings {
            let id = reading.clock;
            if self.clocks.len() >= MAX_CLOCKS && !self.clocks.contains_key(&id) {
                return None;
            }
            let last = &mut self.last;
            let clock = self.clocks.entry(id).or_insert_with(|| {
                last.push(0);
                let index = last.len() as u32 - 1;
                Clock {
                    index,
                    ..Clock::default()
                }
            });
            let is_new = clock.readings.is_empty();
            if is_new && reading.is_incremental && id.sequence == 0 {
                return None;
            }
            if is_new {
                (clock.unit, clock.is_incremental) = (reading.unit, reading.is_incremental);
            } else if (clock.unit, clock.is_incremental) != (reading.unit, reading.is_incremental) {
                return None;
            }
            if id == self.trace_clock && clock.unit != 1 {
                return None;
            }
            let ns = reading.value.wrapping_mul(clock.unit);
            self.last[clock.index as usize] = ns;
            let known = clock.readings.entry(kind).or_default();
            if known.snapshots.last() == Some(&snapshot) {
                return None;
            }
            if known.values.last().is_some_and(|last| ns < *last) {
                if id == self.trace_clock {
                    return None;
                }
                self.not_monotonic.insert(id);
            }
            let replaces = is_full && !known.snapshots.is_empty();
            known.push(snapshot, ns, replaces);
            self.stored += usize::from(!replaces);
        }
        if readings.len() > 1 {
            for reading in readings {
                if let Some(clock) = self.clocks.get_mut(&reading.clock) {
                    clock.kinds.insert(kind);
                }
            }
        }
        Some(snapshot)
    }

    /// Returns the kind of a snapshot; `None` if there are too many kinds.
    fn kind_of(&mut self, readings: &[Reading]) -> Option<u32> {
        let clocks: Arc<[ClockId]> = readings.iter().map(|reading| reading.clock).collect();
        if let Some(kind) = self.kinds.get(&clocks) {
            return Some(*kind);
        }
        if self.of_kinds + clocks.len().max(1) > MAX_OF_KINDS {
            return None;
        }
        self.of_kinds += clocks.len().max(1);
        let kind = self.clocks_of_kinds.len() as u32;
        self.clocks_of_kinds.push(clocks.clone());
        self.kinds.insert(clocks, kind);
        Some(kind)
    }

    /// Assumes that a clock is equal to one with a relation to the trace clock, if that is
    /// plausible.
    fn bridge(&mut self, clock: ClockId) {
        let trace = self.trace_clock;
        if clock == trace || self.convert(clock, 0, trace).is_ok() {
            return;
        }
        let here = ClockId::of_machine(clock.machine, REALTIME);
        let there = ClockId::of_machine(trace.machine, REALTIME);
        if here != there
            && self.convert(clock, 0, here).is_ok()
            && self.convert(there, 0, trace).is_ok()
        {
            if self.convert(here, 0, there).is_err() {
                self.assume_equal(here, there);
            }
        } else if [clock.id, trace.id].contains(&TRACE_FILE) || clock.id == trace.id {
            self.assume_equal(clock, trace);
        } else {
            self.unrelated_pairs.push([clock.id, trace.id]);
        }
    }

    fn assume_equal(&mut self, one: ClockId, other: ClockId) {
        if let Some(snapshot) = self.add(&[Reading::new(one, 0), Reading::new(other, 0)]) {
            self.assumed.push((snapshot, [one, other]));
        }
    }
}

/// Returns the slot of a clock's translation.
#[inline]
fn slot(clock: ClockId) -> usize {
    (clock.sequence.wrapping_mul(7) ^ clock.id ^ clock.machine << 3) as usize % FAST
}
