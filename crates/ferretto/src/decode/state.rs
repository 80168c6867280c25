//! The incremental state of a sequence of track events.

use std::collections::HashMap;

use ferretto_format::budget::Budget;
use ferretto_format::sequence::{FaultSink, InternedEntry, InternedStrings, SequenceState};
use ferretto_proto::fields::{trace_packet_defaults, track_event_defaults};
use ferretto_wire::{Field, Fields};

/// The incremental state of a sequence of track events.
#[derive(Debug)]
pub(super) struct State {
    interned: InternedStrings,
    pub(super) default_track: u64,
    pub(super) extra_counters: Vec<u64>,
    pub(super) extra_double_counters: Vec<u64>,
    /// The current values of incremental counters.
    pub(super) totals: HashMap<u64, i64>,
}

impl State {
    /// Returns the text of an interned entry.
    pub(super) fn text(&self, table: u32, iid: u64) -> Option<String> {
        let text = self.interned.get(table, iid)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn set_event_default(&mut self, field: &Field<'_>) {
        match field.number {
            track_event_defaults::TRACK_UUID => {
                self.default_track = field.as_u64().unwrap_or(0);
            }
            track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS => {
                self.extra_counters.extend(field.as_varints());
            }
            track_event_defaults::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {
                self.extra_double_counters.extend(field.as_varints());
            }
            _ => {}
        }
    }
}

impl SequenceState for State {
    fn new(budget: &Budget) -> Self {
        Self {
            interned: InternedStrings::new(budget),
            default_track: 0,
            extra_counters: Vec::new(),
            extra_double_counters: Vec::new(),
            totals: HashMap::new(),
        }
    }

    fn restart(&mut self) {
        self.interned.clear();
        self.default_track = 0;
        self.extra_counters.clear();
        self.extra_double_counters.clear();
        self.totals.clear();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        self.default_track = 0;
        self.extra_counters.clear();
        self.extra_double_counters.clear();
        for field in Fields::new(defaults).map_while(Result::ok) {
            if field.number == trace_packet_defaults::TRACK_EVENT_DEFAULTS {
                let defaults = field.as_message().into_iter().flatten();
                for field in defaults.map_while(Result::ok) {
                    self.set_event_default(&field);
                }
            }
        }
    }

    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>) {
        for entry in InternedEntry::all(interned) {
            let text = entry.string.unwrap_or_default();
            self.interned.define(entry.table, entry.iid, text, faults);
        }
    }
}
