//! A check of the nesting of slices.

use std::collections::BTreeMap;

use super::Kind;
use super::event::Event;
use super::problem::{Problem, Problems};
use crate::limits::{Budget, entry_bytes};

/// The maximum number of simultaneously open slices of a track.
const MAX_OPEN: usize = 512;
/// The number of begin and end events of a track that are sorted, because the packets of several
/// writers on one track are not ordered. Older ones are counted.
const MAX_SORTED: usize = 1 << 14;

/// The begin and end events of slices, by track.
#[derive(Debug)]
pub(super) struct Slices {
    tracks: BTreeMap<u64, Edges>,
    budget: Budget,
}

/// The last begin and end events of a track.
#[derive(Debug, Default)]
struct Edges {
    /// Their times, and true for those that begin a slice.
    last: Vec<(u64, bool)>,
    /// The memory of the list, in entries.
    reserved: usize,
    /// The number of open slices before these events.
    open: usize,
}

/// The memory of a track's table entry.
const TRACK_BYTES: usize = entry_bytes::<(u64, Edges)>();

impl Slices {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            tracks: BTreeMap::new(),
            budget: budget.clone(),
        }
    }

    /// Adds an event. Counts slices that end without a begin event, and slices that are nested too
    /// deeply.
    pub(super) fn add(&mut self, event: &Event, problems: &mut Problems) {
        let begins = match event.kind {
            Kind::Begin => true,
            Kind::End => false,
            _ => return,
        };
        let Some(time) = event.time else { return };
        if !self.tracks.contains_key(&event.track) && !self.budget.take(TRACK_BYTES) {
            problems.add(Problem::NoMemory);
            return;
        }
        let edges = self.tracks.entry(event.track).or_default();
        if edges.last.len() == edges.reserved {
            let more = edges.reserved.max(4);
            let fits = edges.reserved < MAX_SORTED;
            if fits && self.budget.take(more * size_of::<(u64, bool)>()) {
                edges.reserved += more;
                edges.last.reserve_exact(more);
            } else {
                edges.count(edges.last.len() / 2, problems);
            }
        }
        if edges.last.len() == edges.reserved {
            problems.add(Problem::NoMemory);
            return;
        }
        edges.last.push((time, begins));
    }

    /// Counts the problems of the last events.
    pub(super) fn finish(self, problems: &mut Problems) {
        for mut edges in self.tracks.into_values() {
            edges.count(edges.last.len(), problems);
        }
    }
}

impl Edges {
    /// Counts the problems of the first `count` events, which are removed.
    fn count(&mut self, count: usize, problems: &mut Problems) {
        self.last.sort_by_key(|(time, _)| *time);
        for (_, begins) in self.last.drain(..count) {
            match (begins, self.open) {
                (true, MAX_OPEN..) => problems.add(Problem::SlicesTooDeep),
                (true, _) => self.open += 1,
                (false, 0) => problems.add(Problem::EndWithoutBegin),
                (false, _) => self.open -= 1,
            }
        }
    }
}
