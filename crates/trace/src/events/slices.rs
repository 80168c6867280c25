//! A check of the nesting of slices.

use std::collections::BTreeMap;

use super::Kind;
use super::event::Event;
use super::problem::{Problem, Problems};
use crate::limits::{Budget, entry_bytes};

/// The maximum number of simultaneously open slices of a track.
const MAX_OPEN: usize = 512;

/// The begin and end events of slices, by track.
#[derive(Debug)]
pub(super) struct Slices {
    edges: BTreeMap<u64, Vec<(u64, bool)>>,
    budget: Budget,
}

/// The memory of a track's table entry.
const TRACK_BYTES: usize = entry_bytes::<(u64, Vec<(u64, bool)>)>();
/// The memory of a begin or end event in a growing list.
const EDGE_BYTES: usize = 2 * size_of::<(u64, bool)>();

impl Slices {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            edges: BTreeMap::new(),
            budget: budget.clone(),
        }
    }

    /// Adds an event. Returns `false` if it exceeds the memory limit.
    pub(super) fn add(&mut self, event: &Event) -> bool {
        let begins = match event.kind {
            Kind::Begin => true,
            Kind::End => false,
            _ => return true,
        };
        let Some(time) = event.time else { return true };
        let is_new = !self.edges.contains_key(&event.track);
        let bytes = EDGE_BYTES + usize::from(is_new) * TRACK_BYTES;
        let has_room = self.budget.take(bytes);
        if has_room {
            let edges = self.edges.entry(event.track).or_default();
            edges.push((time, begins));
        }
        has_room
    }

    /// Counts slices that end without a begin event, and slices that are nested too deeply. Sorts
    /// the events, because the packets of several writers on one track are not ordered.
    pub(super) fn check(self, problems: &mut Problems) {
        for mut edges in self.edges.into_values() {
            edges.sort_by_key(|(time, _)| *time);
            let mut open: usize = 0;
            for (_, begins) in edges {
                match (begins, open) {
                    (true, MAX_OPEN..) => problems.add(Problem::SlicesTooDeep),
                    (true, _) => open += 1,
                    (false, 0) => problems.add(Problem::EndWithoutBegin),
                    (false, _) => open -= 1,
                }
            }
        }
    }
}
