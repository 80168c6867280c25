//! A check of how slices nest.

use std::collections::BTreeMap;

use super::event::{Event, Kind};
use super::problem::{Problem, Problems};
use crate::limits::{Budget, entry_bytes};

/// Slices of one track that may be open at a time.
const MAX_OPEN: usize = 512;

/// Beginnings and ends of slices, by track.
#[derive(Debug)]
pub(super) struct Slices {
    edges: BTreeMap<u64, Vec<(u64, bool)>>,
    budget: Budget,
}

/// The memory that a track takes in the table.
const TRACK_BYTES: usize = entry_bytes::<(u64, Vec<(u64, bool)>)>();
/// A beginning or an end, in a list that grows.
const EDGE_BYTES: usize = 2 * size_of::<(u64, bool)>();

impl Slices {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            edges: BTreeMap::new(),
            budget: budget.clone(),
        }
    }

    /// Notes an event. `false` if there is no room for it.
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

    /// Counts slices that end without having begun and those inside too many others. Packets of
    /// several writers on one track are in no order.
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
