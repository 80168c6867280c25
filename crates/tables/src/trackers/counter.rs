//! Counters and states.

use rustc_hash::FxHashMap;

use crate::schema::{CounterRow, StateRow, TableId};
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::waiting_args::Owner;

/// Adds the values of counters.
#[derive(Debug, Default)]
pub(crate) struct CounterTracker;

impl CounterTracker {
    /// Adds a value. Returns its id if the table is wanted.
    #[inline]
    pub(crate) fn add(
        &mut self,
        store: &mut Store,
        ts: i64,
        track: u32,
        value: f64,
        args: &mut ArgSet,
    ) -> Option<u32> {
        if !store.wants(TableId::counter) {
            args.clear();
            return None;
        }
        let id = store.tables.counter.push(CounterRow {
            ts,
            track_id: track,
            value,
            arg_set_id: None,
        });
        args.finish_later(store, Owner::Counter(id));
        Some(id)
    }
}

/// Tracks the values of states.
#[derive(Debug, Default)]
pub(crate) struct StateTracker {
    /// The current value of each track.
    open: FxHashMap<u32, Open>,
}

#[derive(Debug)]
struct Open {
    id: u32,
    ts: i64,
    value: StringId,
    args: ArgSet,
}

impl StateTracker {
    /// Sets the value of a state. NULL and the empty text end it.
    pub(crate) fn set(
        &mut self,
        store: &mut Store,
        ts: i64,
        track: u32,
        (category, value): (StringId, StringId),
        args: &mut ArgSet,
    ) -> Option<u32> {
        let is_none = value.is_null() || value == StringId::EMPTY;
        if let Some(open) = self.open.get_mut(&track) {
            if open.value == value {
                open.args.append(args);
                args.clear();
                return Some(open.id);
            }
            open.close(store, Some(ts));
            self.open.remove(&track);
        }
        if is_none {
            args.clear();
            return None;
        }
        let id = store.tables.state.push(StateRow {
            ts,
            dur: -1,
            track_id: track,
            category,
            value,
            arg_set_id: None,
        });
        let open = Open {
            id,
            ts,
            value,
            args: std::mem::take(args),
        };
        self.open.insert(track, open);
        Some(id)
    }

    /// Writes the arguments of states without an end.
    pub(crate) fn finish(&mut self, store: &mut Store) {
        let mut all: Vec<_> = self.open.drain().map(|(_, open)| open).collect();
        all.sort_by_key(|open| open.id);
        for mut open in all {
            open.close(store, None);
        }
    }
}

impl Open {
    fn close(&mut self, store: &mut Store, ts: Option<i64>) {
        if let Some(ts) = ts {
            store
                .tables
                .state
                .dur
                .set(self.id, ts.wrapping_sub(self.ts));
        }
        let set = self.args.finish(store);
        store.tables.state.arg_set_id.set(self.id, set);
    }
}
