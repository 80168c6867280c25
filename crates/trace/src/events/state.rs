//! The incremental state of a sequence of track events.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ferretto_format::sequence::{Fault, FaultSink, InternedEntry, InternedStrings, SequenceState};
use ferretto_proto::fields::{trace_packet_defaults, track_event_defaults};
use ferretto_wire::Fields;

use super::problem::{Problem, Problems};
use crate::limits::{Budget, entry_bytes};

/// The maximum size of an event with its references resolved, in bytes.
const MAX_EVENT: usize = 16 << 20;
/// The memory overhead of a part of an event, without its text.
const ENTRY_BYTES: usize = 128;
/// The maximum number of extra counters of an event that are read; viewers show fewer.
pub(super) const MAX_EXTRA: usize = 64;

/// The incremental state of a sequence of track events.
#[derive(Debug)]
pub(crate) struct State {
    budget: Budget,
    /// The memory of the counters' sums.
    taken: usize,
    interned: InternedStrings,
    /// The remaining memory limit of the current event.
    room: Cell<usize>,
    /// The defaults and sums, valid until the incremental state is cleared.
    pub(super) incremental: Incremental,
    /// The content of the old `ThreadDescriptor` packet: the thread id, and the base of timestamps
    /// in microseconds.
    pub(super) thread: Option<(i32, i64)>,
    pub(super) old_time_us: i64,
}

/// The defaults and sums, valid until the incremental state is cleared.
#[derive(Debug, Default)]
pub(crate) struct Incremental {
    pub(super) track: Option<u64>,
    pub(super) extra_tracks: Vec<u64>,
    pub(super) extra_double_tracks: Vec<u64>,
    /// The sums of incremental counters.
    sums: HashMap<u64, i64>,
}

impl SequenceState for State {
    fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            taken: 0,
            interned: InternedStrings::new(budget),
            room: Cell::new(0),
            incremental: Incremental::default(),
            thread: None,
            old_time_us: 0,
        }
    }

    fn restart(&mut self) {
        self.budget.give_back(self.taken);
        self.taken = 0;
        self.interned.clear();
        self.incremental = Incremental::default();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        let state = &mut self.incremental;
        state.track = None;
        state.extra_tracks.clear();
        state.extra_double_tracks.clear();
        for field in Fields::new(defaults).map_while(Result::ok) {
            if field.number == trace_packet_defaults::TRACK_EVENT_DEFAULTS {
                state.set_event_defaults(field.as_bytes().unwrap_or_default());
            }
        }
    }

    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>) {
        for entry in InternedEntry::all(interned) {
            if entry.iid == 0 {
                faults(Fault::EntryWithoutIid);
                continue;
            }
            let content = entry.string.unwrap_or(entry.bytes);
            self.interned
                .define(entry.table, entry.iid, content, faults);
        }
    }
}

impl Incremental {
    fn set_event_defaults(&mut self, bytes: &[u8]) {
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                track_event_defaults::TRACK_UUID => self.track = field.as_u64(),
                track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS => {
                    let room = MAX_EXTRA.saturating_sub(self.extra_tracks.len());
                    self.extra_tracks.extend(field.as_varints().take(room));
                }
                track_event_defaults::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {
                    let room = MAX_EXTRA.saturating_sub(self.extra_double_tracks.len());
                    self.extra_double_tracks
                        .extend(field.as_varints().take(room));
                }
                _ => {}
            }
        }
    }
}

impl State {
    /// Adds a difference to an incremental counter and returns its value.
    pub(super) fn sum(&mut self, track: u64, difference: i64) -> i64 {
        let sum = match self.incremental.sums.entry(track) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let bytes = entry_bytes::<(u64, i64)>();
                if !self.budget.take(bytes) {
                    return difference;
                }
                self.taken += bytes;
                new.insert(0)
            }
        };
        *sum = sum.wrapping_add(difference);
        *sum
    }

    /// Resets the memory limit for a new event.
    pub(super) fn begin_event(&self) {
        self.room.set(MAX_EVENT);
    }

    /// Reserves memory for a part of the event. Returns false if the event exceeds its limit: a few
    /// bytes in a trace can refer to long interned strings.
    pub(super) fn take_room(&self, bytes: usize, problems: &mut Problems) -> bool {
        match self.room.get().checked_sub(bytes + ENTRY_BYTES) {
            Some(left) => {
                self.room.set(left);
                true
            }
            None => {
                problems.add(Problem::EventTooLarge);
                false
            }
        }
    }

    /// Returns the text with this iid in a table of `InternedData`.
    pub(super) fn text(&self, table: u32, iid: u64, problems: &mut Problems) -> Option<String> {
        let Some(entry) = self.interned.get(table, iid) else {
            problems.add(Problem::NotDefined);
            return None;
        };
        self.take_room(entry.len(), problems).then(|| text(entry))
    }
}

/// Converts bytes to text, with invalid UTF-8 replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
