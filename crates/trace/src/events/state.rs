//! What the packets of one writer mean together.

use std::collections::HashMap;

use ferretto_format::sequence::{Fault, FaultSink, SequenceState};
use ferretto_proto::fields::{trace_packet_defaults, track_event_defaults};
use ferretto_wire::Fields;

use super::problem::{Problem, Problems};

/// What the packets of one writer left behind.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What holds until the next new start.
    pub(super) incremental: Incremental,
    /// What the old `ThreadDescriptor` packet said: the thread's number, and the base of times in microseconds.
    pub(super) thread: Option<(i32, i64)>,
    pub(super) old_time_us: i64,
}

/// What holds until the next new start.
#[derive(Debug, Default)]
pub(crate) struct Incremental {
    interned: HashMap<(u32, u64), Vec<u8>>,
    pub(super) track: Option<u64>,
    pub(super) extra_tracks: Vec<u64>,
    pub(super) extra_double_tracks: Vec<u64>,
    /// Sums of the counters whose values are differences.
    sums: HashMap<u64, i64>,
}

impl SequenceState for State {
    fn restart(&mut self) {
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
        for table in Fields::new(interned).map_while(Result::ok) {
            let Some(entry) = table.as_bytes() else {
                continue;
            };
            let iid = Fields::find(1, entry).and_then(|iid| iid.as_u64());
            let Some(iid) = iid.filter(|iid| *iid != 0) else {
                faults(Fault::EntryWithoutIid);
                continue;
            };
            let content = Fields::find(2, entry)
                .and_then(|content| content.as_bytes())
                .unwrap_or(entry);
            let known = self.incremental.interned.entry((table.number, iid));
            let known = known.or_insert_with(|| content.to_vec());
            if known != content {
                faults(Fault::Redefined);
            }
        }
    }
}

impl Incremental {
    fn set_event_defaults(&mut self, bytes: &[u8]) {
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                track_event_defaults::TRACK_UUID => self.track = field.as_u64(),
                track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS => {
                    self.extra_tracks.extend(field.as_varints());
                }
                track_event_defaults::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => {
                    self.extra_double_tracks.extend(field.as_varints());
                }
                _ => {}
            }
        }
    }
}

impl State {
    /// The value of a counter whose values are differences, after one more.
    pub(super) fn sum(&mut self, track: u64, difference: i64) -> i64 {
        let sum = self.incremental.sums.entry(track).or_default();
        *sum = sum.wrapping_add(difference);
        *sum
    }

    /// The text with this number in a table of `InternedData`.
    pub(super) fn text(&self, table: u32, iid: u64, problems: &mut Problems) -> Option<String> {
        let entry = self.incremental.interned.get(&(table, iid));
        if entry.is_none() {
            problems.add(Problem::NotDefined);
        }
        entry.map(|entry| text(entry))
    }
}

/// Bytes as text; what is not UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
