//! The incremental state of a sequence of track events.

use std::collections::HashMap;

use ferretto_format::budget::Budget;
use ferretto_format::sequence::{FaultSink, InternedEntry, InternedStrings, SequenceState};
use ferretto_format::track_event::CounterValue as Encoded;
use ferretto_format::track_event::{EventDefaults, Text};

/// The incremental state of a sequence of track events.
#[derive(Debug)]
pub(super) struct State {
    interned: InternedStrings,
    pub(super) defaults: EventDefaults,
    /// The current values of incremental counters.
    pub(super) totals: HashMap<u64, Encoded>,
}

impl State {
    /// Returns a text, which may be interned in a table of `InternedData`.
    pub(super) fn text(&self, table: u32, text: Text<'_>) -> Option<String> {
        let bytes = match text {
            Text::Literal(bytes) => bytes,
            Text::Interned(iid) => self.interned.get(table, iid)?,
        };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

impl SequenceState for State {
    fn new(budget: &Budget) -> Self {
        Self {
            interned: InternedStrings::new(budget),
            defaults: EventDefaults::default(),
            totals: HashMap::new(),
        }
    }

    fn restart(&mut self) {
        self.interned.clear();
        self.defaults = EventDefaults::default();
        self.totals.clear();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        self.defaults = EventDefaults::read(defaults);
    }

    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>) {
        for entry in InternedEntry::all(interned) {
            let text = entry.string.unwrap_or_default();
            self.interned.define(entry.table, entry.iid, text, faults);
        }
    }
}
