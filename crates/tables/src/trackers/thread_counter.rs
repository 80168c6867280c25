//! Counters of processes, with values that name only a thread.

use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::counter::CounterTracker;
use crate::trackers::track::{Dimension, TrackSpec, TrackTracker};

/// A counter that exists for each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessCounter {
    /// The type of its tracks.
    pub(crate) type_: &'static str,
    /// The type of its tracks if the process remains unknown.
    pub(crate) fallback: &'static str,
    /// Further dimensions.
    pub(crate) dimensions: [Option<(&'static str, StringId)>; 2],
    pub(crate) name: StringId,
    pub(crate) unit: StringId,
}

impl ProcessCounter {
    /// Returns its track for the process of a thread, or for the thread.
    fn track(&self, store: &mut Store, tracks: &mut TrackTracker, utid: u32) -> u32 {
        let mut dimensions = Vec::with_capacity(3);
        let type_ = match store.tables.thread.upid.get(utid) {
            Some(upid) => {
                dimensions.push(Dimension::Upid(upid));
                self.type_
            }
            None => {
                dimensions.push(Dimension::Utid(utid));
                self.fallback
            }
        };
        let more = self.dimensions.iter().flatten();
        dimensions.extend(more.map(|(key, value)| Dimension::Text(key, *value)));
        let spec = TrackSpec::counter(type_, &dimensions);
        let spec = TrackSpec {
            unit: self.unit,
            ..spec.named(self.name)
        };
        tracks.intern(store, spec)
    }
}

/// Values whose track is determined when all threads are known.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounterTracker {
    counters: Vec<ProcessCounter>,
    /// The row of `counter`, the thread, and the counter.
    waiting: Vec<(u32, u32, u32)>,
}

/// The maximum number of kinds of counters.
const MAX_COUNTERS: usize = 1 << 10;

impl ThreadCounterTracker {
    /// Adds a value for the process of a thread.
    pub(crate) fn add(
        &mut self,
        store: &mut Store,
        counters: &mut CounterTracker,
        ts: i64,
        utid: u32,
        counter: ProcessCounter,
        value: f64,
    ) {
        let number = match self.counters.iter().position(|known| *known == counter) {
            Some(number) => number,
            None if self.counters.len() < MAX_COUNTERS => {
                self.counters.push(counter);
                self.counters.len() - 1
            }
            None => return,
        };
        if let Some(row) = counters.add(store, ts, 0, value, &mut ArgSet::default()) {
            self.waiting.push((row, utid, number as u32));
        }
    }

    /// Sets the tracks of all values.
    pub(crate) fn finish(&mut self, store: &mut Store, tracks: &mut TrackTracker) {
        let machine = store.machine;
        for (row, utid, number) in std::mem::take(&mut self.waiting) {
            store.machine = store.tables.thread.machine_id.get(utid);
            let track = self.counters[number as usize].track(store, tracks, utid);
            store.tables.counter.track_id.set(row, track);
        }
        store.machine = machine;
    }
}
