//! Conversion of times between clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ferretto_format::clock::{BOOTTIME, REALTIME};

use crate::schema::{ArgValue, ClockSnapshotRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// A clock of the whole trace, of a machine, or of a sequence of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClockId {
    /// The clock id in the trace.
    pub(crate) id: u32,
    /// The sequence of the clock, or 0.
    pub(crate) sequence: u32,
    /// The file of the clock, or 0.
    pub(crate) file: u32,
    /// The row of the machine.
    pub(crate) machine: u32,
}

impl ClockId {
    /// Returns a clock of a machine.
    pub(crate) fn of_machine(machine: u32, id: u32) -> Self {
        Self {
            id,
            sequence: 0,
            file: 0,
            machine,
        }
    }

    /// Returns true if clocks with this id belong to sequences.
    pub(crate) fn is_of_sequence(id: u32) -> bool {
        (64..128).contains(&id)
    }
}

/// The id of the default clock of a file.
pub(crate) const TRACE_FILE: u32 = 11;

/// A clock at the moment of a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) clock: ClockId,
    pub(crate) value: i64,
    /// The nanoseconds of one unit.
    pub(crate) unit: i64,
    pub(crate) is_incremental: bool,
}

/// The reason why a time cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockError {
    UnknownSource,
    UnknownTarget,
    NoPath,
}

impl ClockError {
    /// Counts and logs the error for a conversion between two clocks, with the offset in the file
    /// if there is one.
    pub(crate) fn log(
        self,
        store: &mut Store,
        clock: ClockId,
        value: i64,
        target: ClockId,
        byte_offset: Option<u64>,
    ) {
        let stat = match self {
            Self::UnknownSource => Stat::clock_sync_failure_unknown_source_clock,
            Self::UnknownTarget => Stat::clock_sync_failure_unknown_target_clock,
            Self::NoPath => Stat::clock_sync_failure_no_path,
        };
        let mut args = ArgSet::default();
        if clock.sequence != 0 {
            let sequence = ArgValue::Uint(clock.sequence.into());
            args.put(store, "source_sequence_id", sequence);
        }
        args.int(store, "source_clock_id", clock.id.into());
        args.int(store, "source_timestamp", value);
        args.int(store, "target_clock_id", target.id.into());
        match byte_offset {
            Some(offset) => store.log_about(stat, offset, args),
            None => store.log(stat, None, args),
        }
    }
}

/// The maximum number of steps between two clocks.
const MAX_STEPS: usize = 4;
/// The maximum number of clocks, to bound memory.
const MAX_CLOCKS: usize = 1 << 14;
/// The maximum number of clocks of a snapshot.
const MAX_READINGS: usize = 128;

/// The clocks of the trace and their relations.
#[derive(Debug)]
pub(crate) struct ClockTracker {
    clocks: BTreeMap<ClockId, Clock>,
    /// Pairs of clocks with a direct conversion, by the kind of snapshot that contains both.
    edges: BTreeSet<(ClockId, ClockId, u32)>,
    not_monotonic: BTreeSet<ClockId>,
    /// The kinds of snapshots, by their clocks.
    kinds: BTreeMap<Vec<ClockId>, u32>,
    snapshots: u32,
    cache: Vec<Translation>,
    /// Recently used translations, by clock.
    fast: Vec<Option<Fast>>,
    /// The last values of incremental clocks, by [`Clock::place`].
    last: Vec<i64>,
    /// The clock of all times in the tables.
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
    /// Pairs of clocks that are assumed to be equal, and whose rows are not written yet.
    bridges: Vec<(u32, [ClockId; 2])>,
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
    place: u32,
}

#[derive(Debug, Default)]
struct Readings {
    snapshots: Vec<u32>,
    values: Vec<i64>,
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
    place: u32,
}

/// The number of recently used translations.
const FAST: usize = 64;

impl Default for ClockTracker {
    fn default() -> Self {
        Self {
            clocks: BTreeMap::new(),
            edges: BTreeSet::new(),
            not_monotonic: BTreeSet::new(),
            kinds: BTreeMap::new(),
            snapshots: 0,
            cache: Vec::new(),
            fast: vec![None; FAST],
            last: Vec::new(),
            trace_clock: ClockId::of_machine(0, TRACE_FILE),
            chooser: None,
            defaults: BTreeMap::new(),
            unrelated: BTreeSet::from([0]),
            of_file: None,
            bridges: Vec::new(),
            unrelated_pairs: Vec::new(),
            is_frozen: false,
        }
    }
}

impl ClockTracker {
    /// Returns the default clock of packets of a machine.
    pub(crate) fn default_clock(&self, machine: u32) -> Option<ClockId> {
        self.defaults.get(&machine).copied()
    }

    /// Sets the default clock of packets of a machine.
    pub(crate) fn set_default(&mut self, clock: ClockId) {
        self.defaults.insert(clock.machine, clock);
    }

    /// Sets the trace clock. Returns false if it cannot change any more, because times were
    /// converted or another file determined it.
    pub(crate) fn set_trace_clock(&mut self, clock: ClockId, file: u32) -> bool {
        if self.is_frozen || self.chooser.is_some_and(|chooser| chooser != file) {
            return false;
        }
        self.chooser = Some(file);
        self.trace_clock = clock;
        true
    }

    /// Returns the trace clock.
    pub(crate) fn trace_clock(&self) -> ClockId {
        self.trace_clock
    }

    /// Sets the clock of the current file, if it applies to the whole file.
    pub(crate) fn set_file_clock(&mut self, clock: Option<ClockId>) {
        self.of_file = clock.map(|clock| (clock, false));
    }

    /// Converts a time of the current file to the trace clock. A file without a clock uses the
    /// trace clock.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the two clocks.
    pub(crate) fn file_time(&mut self, value: i64) -> Result<i64, (ClockError, ClockId)> {
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
    pub(crate) fn relate_later(&mut self, machine: u32) {
        self.unrelated.insert(machine);
    }

    /// Adds a snapshot, and its rows to the table. Invalid snapshots are counted.
    pub(crate) fn add_snapshot(&mut self, store: &mut Store, readings: &[Reading]) {
        self.write(store);
        let Some(snapshot) = self.relate(readings) else {
            store.stats.add(Stat::invalid_clock_snapshots, 1);
            return;
        };
        let trace_clock = self.trace_clock;
        let of_trace = readings.iter().find(|one| one.clock == trace_clock);
        let of_trace = of_trace.map(|one| one.value);
        for reading in readings.iter().take(MAX_READINGS) {
            let value = if reading.is_incremental {
                0
            } else {
                reading.value
            };
            let converted = self.look_up(reading.clock, value, trace_clock);
            if let Some(ts) = converted.ok().or(of_trace) {
                push(store, ts, snapshot, reading);
            }
        }
    }

    /// Adds the rows of clocks that are assumed to be equal, and logs those without a relation.
    pub(crate) fn write(&mut self, store: &mut Store) {
        for (snapshot, clocks) in std::mem::take(&mut self.bridges) {
            for clock in clocks {
                let ts = self.look_up(clock, 0, self.trace_clock).unwrap_or(0);
                push(store, ts, snapshot, &zero(clock));
            }
        }
        for [from, to] in std::mem::take(&mut self.unrelated_pairs) {
            let mut args = ArgSet::default();
            args.int(store, "source_clock_id", from.into());
            args.int(store, "target_clock_id", to.into());
            store.log(Stat::clock_sync_unrelatable_clock_domains, None, args);
        }
    }

    /// Converts a time to the trace clock.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the two clocks.
    #[inline]
    pub(crate) fn trace_time(&mut self, clock: ClockId, value: i64) -> Result<i64, ClockError> {
        self.is_frozen = true;
        // Events on the trace clock itself need no relation of their machine's clocks to it.
        let needs_relation = !self.unrelated.is_empty() && clock != self.trace_clock;
        if needs_relation && self.unrelated.remove(&clock.machine) {
            self.bridge(ClockId::of_machine(clock.machine, BOOTTIME));
        }
        self.convert(clock, value, self.trace_clock)
    }

    /// Converts a time to another clock.
    ///
    /// # Errors
    ///
    /// Fails if no snapshot relates the two clocks.
    #[inline]
    pub(crate) fn convert(
        &mut self,
        from: ClockId,
        value: i64,
        to: ClockId,
    ) -> Result<i64, ClockError> {
        if from == to {
            return Ok(value);
        }
        if let Some(Fast {
            translation: known,
            unit,
            is_incremental,
            place,
        }) = self.fast[slot(from)]
            && (known.from, known.to) == (from, to)
        {
            let mut ns = value.wrapping_mul(unit);
            let last = &mut self.last[place as usize];
            if is_incremental {
                ns = ns.wrapping_add(*last);
            }
            if ns >= known.begin && ns < known.end {
                if is_incremental {
                    *last = ns;
                }
                return Ok(ns.wrapping_add(known.ahead));
            }
        }
        self.look_up(from, value, to)
    }

    fn look_up(&mut self, from: ClockId, value: i64, to: ClockId) -> Result<i64, ClockError> {
        if from == to {
            return Ok(value);
        }
        let path = self.path(from, to)?;
        let Some(clock) = self.clocks.get(&from) else {
            return Err(ClockError::UnknownSource);
        };
        let (is_incremental, unit, place) = (clock.is_incremental, clock.unit, clock.place);
        let mut ns = value.wrapping_mul(unit);
        if is_incremental {
            let last = &mut self.last[place as usize];
            ns = last.wrapping_add(ns);
            *last = ns;
        }
        let fast = |translation| Fast {
            translation,
            unit,
            is_incremental,
            place,
        };
        let known = self
            .cache
            .iter()
            .position(|one| (one.from, one.to) == (from, to) && ns >= one.begin && ns < one.end);
        if let Some(place) = known {
            self.cache.swap(0, place);
            self.fast[slot(from)] = Some(fast(self.cache[0]));
            return Ok(ns.wrapping_add(self.cache[0].ahead));
        }
        let (mut begin, mut end, mut ahead) = (i64::MIN, i64::MAX, 0_i64);
        for (from, to, kind) in path {
            let (Some(from), Some(to)) = (self.readings(from, kind), self.readings(to, kind))
            else {
                return Err(ClockError::NoPath);
            };
            let at = ns.wrapping_add(ahead);
            let behind = from.values.partition_point(|value| *value <= at);
            let place = behind.saturating_sub(1);
            let Some(snapshot) = from.snapshots.get(place) else {
                return Err(ClockError::NoPath);
            };
            let Ok(other) = to.snapshots.binary_search(snapshot) else {
                return Err(ClockError::NoPath);
            };
            if place > 0 {
                begin = begin.max(from.values[place].wrapping_sub(ahead));
            }
            if let Some(next) = from.values.get(place + 1) {
                end = end.min(next.wrapping_sub(ahead));
            }
            let step = to.values[other].wrapping_sub(from.values[place]);
            ahead = ahead.wrapping_add(step);
        }
        self.cache.truncate(15);
        let translation = Translation {
            from,
            to,
            begin,
            end,
            ahead,
        };
        self.cache.push(translation);
        let last = self.cache.len() - 1;
        self.cache.swap(0, last);
        self.fast[slot(from)] = Some(fast(translation));
        Ok(ns.wrapping_add(ahead))
    }

    fn readings(&self, clock: ClockId, kind: u32) -> Option<&Readings> {
        self.clocks.get(&clock)?.readings.get(&kind)
    }

    /// Adds the values of a snapshot, and returns its id; `None` if it is invalid.
    fn relate(&mut self, readings: &[Reading]) -> Option<u32> {
        let readings = &readings[..readings.len().min(MAX_READINGS)];
        let snapshot = self.snapshots;
        self.snapshots += 1;
        self.cache.clear();
        self.fast.fill(None);
        let clocks: Vec<_> = readings.iter().map(|reading| reading.clock).collect();
        let next = self.kinds.len() as u32;
        let kind = *self.kinds.entry(clocks).or_insert(next);
        for reading in readings {
            let id = reading.clock;
            if self.clocks.len() >= MAX_CLOCKS && !self.clocks.contains_key(&id) {
                return None;
            }
            let last = &mut self.last;
            let clock = self.clocks.entry(id).or_insert_with(|| {
                last.push(0);
                let place = last.len() as u32 - 1;
                Clock {
                    place,
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
            self.last[clock.place as usize] = ns;
            let known = clock.readings.entry(kind).or_default();
            if known.snapshots.last() == Some(&snapshot) {
                return None;
            }
            if known.values.last().is_some_and(|last| ns < *last) {
                if id == self.trace_clock {
                    return None;
                }
                self.not_monotonic.insert(id);
                self.edges.retain(|(from, _, _)| *from != id);
            }
            known.snapshots.push(snapshot);
            known.values.push(ns);
        }
        for (place, one) in readings.iter().enumerate() {
            for other in &readings[place + 1..] {
                for (from, to) in [(one.clock, other.clock), (other.clock, one.clock)] {
                    if !self.not_monotonic.contains(&from) {
                        self.edges.insert((from, to, kind));
                    }
                }
            }
        }
        Some(snapshot)
    }

    /// Returns the shortest path from one clock to another.
    fn path(&self, from: ClockId, to: ClockId) -> Result<Vec<(ClockId, ClockId, u32)>, ClockError> {
        if !self.clocks.contains_key(&from) {
            return Err(ClockError::UnknownSource);
        }
        if !self.clocks.contains_key(&to) {
            return Err(ClockError::UnknownTarget);
        }
        let mut came_by = BTreeMap::new();
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((clock, steps)) = queue.pop_front() {
            if steps >= MAX_STEPS {
                continue;
            }
            let lowest = ClockId {
                id: 0,
                sequence: 0,
                file: 0,
                machine: 0,
            };
            for edge in self.edges.range((clock, lowest, 0)..) {
                if edge.0 != clock {
                    break;
                }
                if edge.1 == from || came_by.contains_key(&edge.1) {
                    continue;
                }
                came_by.insert(edge.1, *edge);
                if edge.1 == to {
                    let mut path = vec![*edge];
                    while let Some(edge) = path.last().and_then(|edge| came_by.get(&edge.0)) {
                        path.push(*edge);
                    }
                    path.reverse();
                    return Ok(path);
                }
                queue.push_back((edge.1, steps + 1));
            }
        }
        Err(ClockError::NoPath)
    }

    /// Assumes that a clock is equal to one with a relation to the trace clock, if that is
    /// plausible.
    fn bridge(&mut self, clock: ClockId) {
        let trace = self.trace_clock;
        if clock == trace || self.look_up(clock, 0, trace).is_ok() {
            return;
        }
        let here = ClockId::of_machine(clock.machine, REALTIME);
        let there = ClockId::of_machine(trace.machine, REALTIME);
        if here != there
            && self.look_up(clock, 0, here).is_ok()
            && self.look_up(there, 0, trace).is_ok()
        {
            if self.look_up(here, 0, there).is_err() {
                self.assume_equal(here, there);
            }
        } else if [clock.id, trace.id].contains(&TRACE_FILE) || clock.id == trace.id {
            self.assume_equal(clock, trace);
        } else {
            self.unrelated_pairs.push([clock.id, trace.id]);
        }
    }

    fn assume_equal(&mut self, one: ClockId, other: ClockId) {
        if let Some(snapshot) = self.relate(&[zero(one), zero(other)]) {
            self.bridges.push((snapshot, [one, other]));
        }
    }
}

/// Returns the slot of a clock's translation.
#[inline]
fn slot(clock: ClockId) -> usize {
    (clock.sequence.wrapping_mul(7) ^ clock.id ^ clock.machine << 3) as usize % FAST
}

/// Returns a reading of zero.
fn zero(clock: ClockId) -> Reading {
    Reading {
        clock,
        value: 0,
        unit: 1,
        is_incremental: false,
    }
}

fn push(store: &mut Store, ts: i64, snapshot_id: u32, reading: &Reading) {
    let clock_name = match name(reading.clock.id) {
        Some(name) => store.strings.intern(name),
        None => StringId::NULL,
    };
    store.tables.clock_snapshot.push(ClockSnapshotRow {
        ts,
        clock_id: reading.clock.id.into(),
        clock_name,
        clock_value: reading.value.wrapping_mul(reading.unit),
        snapshot_id,
        machine_id: reading.clock.machine,
    });
}

/// Returns the name of a builtin clock.
pub(crate) fn name(clock: u32) -> Option<&'static str> {
    Some(match clock {
        1 => "REALTIME",
        2 => "REALTIME_COARSE",
        3 => "MONOTONIC",
        4 => "MONOTONIC_COARSE",
        5 => "MONOTONIC_RAW",
        6 => "BOOTTIME",
        _ => return None,
    })
}
