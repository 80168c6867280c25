//! The incremental state of a sequence of track events.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ferretto_format::sequence::{Fault, FaultSink, InternedEntry, InternedStrings, SequenceState};
use ferretto_format::track_event::{CounterValue as Number, EventState, Text};

use super::problem::{Problem, Problems};
use crate::limits::{Budget, entry_bytes};

/// The maximum size of an event with its references resolved, in bytes.
const MAX_EVENT: usize = 16 << 20;
/// The memory overhead of a part of an event, without its text.
const ENTRY_BYTES: usize = 128;
/// The incremental state of a sequence of track events.
#[derive(Debug)]
pub(crate) struct State {
    budget: Budget,
    /// The memory of the counters' sums.
    taken: usize,
    interned: InternedStrings,
    /// The remaining memory limit of the current event.
    left_bytes: Cell<usize>,
    /// The defaults and the base of relative times.
    pub(super) event: EventState,
    /// The sums of incremental counters.
    sums: HashMap<u64, Number>,
}

impl SequenceState for State {
    fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            taken: 0,
            interned: InternedStrings::new(budget),
            left_bytes: Cell::new(0),
            event: EventState::default(),
            sums: HashMap::new(),
        }
    }

    fn restart(&mut self) {
        self.budget.give_back(self.taken);
        self.taken = 0;
        self.interned.clear();
        self.event.restart();
        self.sums = HashMap::new();
    }

    fn lose(&mut self) {
        self.event.lose();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        self.event.set_defaults(defaults);
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

impl State {
    /// Adds a difference to an incremental counter and returns its value.
    pub(super) fn sum(&mut self, track: u64, difference: Number) -> Number {
        let sum = match self.sums.entry(track) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let bytes = entry_bytes::<(u64, Number)>();
                if !self.budget.take(bytes) {
                    return difference;
                }
                self.taken += bytes;
                new.insert(Number::Integer(0))
            }
        };
        *sum = sum.plus(difference);
        *sum
    }

    /// Resets the memory limit for a new event.
    pub(super) fn begin_event(&self) {
        self.left_bytes.set(MAX_EVENT);
    }

    /// Reserves memory for a part of the event. Returns false if the event exceeds its limit: a few
    /// bytes in a trace can refer to long interned strings.
    pub(super) fn take_bytes(&self, bytes: usize, problems: &mut Problems) -> bool {
        match self.left_bytes.get().checked_sub(bytes + ENTRY_BYTES) {
            Some(left) => {
                self.left_bytes.set(left);
                true
            }
            None => {
                problems.add(Problem::EventTooLarge);
                false
            }
        }
    }

    /// Returns a text, which may be interned in a table of `InternedData`.
    pub(super) fn resolve(
        &self,
        table: u32,
        text: Text<'_>,
        problems: &mut Problems,
    ) -> Option<String> {
        let iid = match text {
            Text::Literal(bytes) => return Some(self::text(bytes)),
            Text::Interned(iid) => iid,
        };
        let Some(entry) = self.interned.get(table, iid) else {
            problems.add(Problem::NotDefined);
            return None;
        };
        self.take_bytes(entry.len(), problems)
            .then(|| self::text(entry))
    }
}

/// Converts bytes to text, with invalid UTF-8 replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
