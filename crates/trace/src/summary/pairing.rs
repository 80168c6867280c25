//! Pairs of begin and end events of slices.
//!
//! The events of a thread's own track come from one sequence, in order, and are paired at once.
//! Those of other tracks may come from several sequences, whose packets are in the file one after
//! the other, so they are kept and paired in the order of their times, as the tables do.

use std::collections::hash_map::Entry;

use ferretto_format::track_event::EventTrack;

use crate::limits::{Budget, EventMap, entry_bytes};

/// The maximum number of simultaneously open slices of a track.
const MAX_OPEN: usize = 512;

/// The memory of a track.
const TRACK_BYTES: usize = entry_bytes::<(EventTrack, Track)>();
/// The memory of an element in a growing list.
const OPEN_BYTES: usize = 2 * size_of::<Open>();
const EDGE_BYTES: usize = 2 * size_of::<Edge>();

/// The name of a slice, as an index of the caller.
pub(super) type Name = u32;

/// A slice with an end event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) name: Name,
    pub(super) duration_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    name: Name,
    began: u64,
}

/// A begin event, or an end event, which has no name.
#[derive(Debug, Clone, Copy)]
struct Edge {
    time: u64,
    name: Option<Name>,
}

#[derive(Debug, Default)]
struct Track {
    open: Vec<Open>,
    /// The events that are not paired yet, in the order of the file.
    edges: Vec<Edge>,
    /// Set if the events may come from several sequences.
    is_shared: bool,
}

/// The open slices of all tracks.
#[derive(Debug)]
pub(super) struct Pairing {
    budget: Budget,
    tracks: EventMap<EventTrack, Track>,
    ended: Vec<Ended>,
}

impl Pairing {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            tracks: EventMap::default(),
            ended: Vec::new(),
        }
    }

    /// Adds the begin event of a slice with a name, or an end event. `is_shared` is true if other
    /// sequences may write to the track. Returns the slices that have ended.
    pub(super) fn add(
        &mut self,
        track: EventTrack,
        time: u64,
        name: Option<Name>,
        is_shared: bool,
    ) -> impl Iterator<Item = Ended> {
        let edge = Edge { time, name };
        let state = match self.tracks.entry(track) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) if self.budget.take(TRACK_BYTES) => {
                Some(new.insert(Track::default()))
            }
            Entry::Vacant(_) => None,
        };
        if let Some(state) = state {
            state.is_shared |= is_shared;
            if !state.is_shared {
                // The track stays, also without open slices: each thread has one.
                state.pair(edge, &self.budget, &mut self.ended);
            } else if self.budget.take(EDGE_BYTES) {
                state.edges.push(edge);
            } else {
                // Older events are paired without those that may still follow in the file.
                state.edges.push(edge);
                self.pair_all();
                // The memory of the new event, which pairing gave back.
                let _ = self.budget.take(EDGE_BYTES);
            }
        }
        self.ended.drain(..)
    }

    /// Pairs the remaining events. Returns the slices that have ended, and the names of those that
    /// have not.
    pub(super) fn finish(mut self) -> (Vec<Ended>, Vec<Name>) {
        self.pair_all();
        let open = self.tracks.into_values().flat_map(|track| track.open);
        let open = open.map(|slice| slice.name).collect();
        (self.ended, open)
    }

    fn pair_all(&mut self) {
        for state in self.tracks.values_mut() {
            let mut edges = std::mem::take(&mut state.edges);
            self.budget.give_back(edges.len() * EDGE_BYTES);
            // Stable: events of one time are in the order of the file.
            edges.sort_by_key(|edge| edge.time);
            for edge in edges {
                state.pair(edge, &self.budget, &mut self.ended);
            }
        }
        let budget = &self.budget;
        self.tracks.retain(|_, state| {
            let is_used = !state.is_empty();
            if !is_used {
                budget.give_back(TRACK_BYTES);
            }
            is_used
        });
    }
}

impl Track {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.edges.is_empty()
    }

    /// Opens a slice, or ends the innermost one.
    fn pair(&mut self, edge: Edge, budget: &Budget, ended: &mut Vec<Ended>) {
        match edge.name {
            Some(name) => {
                if self.open.len() < MAX_OPEN && budget.take(OPEN_BYTES) {
                    let began = edge.time;
                    self.open.push(Open { name, began });
                }
            }
            None => {
                if let Some(Open { name, began }) = self.open.pop() {
                    budget.give_back(OPEN_BYTES);
                    let duration_ns = edge.time.saturating_sub(began);
                    ended.push(Ended { name, duration_ns });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, EventTrack, Pairing};
    use crate::limits::Budget;

    const TRACK: EventTrack = EventTrack::Uuid(7);

    fn pairs(
        budget: &Budget,
        events: &[(u64, Option<u32>)],
        shared: bool,
    ) -> (Vec<Ended>, Vec<u32>) {
        let mut pairing = Pairing::new(budget);
        let mut all = Vec::new();
        for (time, name) in events {
            all.extend(pairing.add(TRACK, *time, *name, shared));
        }
        let (ended, open) = pairing.finish();
        all.extend(ended);
        (all, open)
    }

    fn ended(name: u32, duration_ns: u64) -> Ended {
        Ended { name, duration_ns }
    }

    #[test]
    fn events_of_several_sequences_are_paired_by_time() {
        // The second sequence's packets follow the first one's.
        let events = [(1, Some(0)), (3, Some(1)), (2, None), (4, None)];
        let budget = Budget::new(1 << 20);
        let expected = (vec![ended(0, 1), ended(1, 1)], vec![]);
        assert_eq!(pairs(&budget, &events, true), expected);
    }

    #[test]
    fn slices_of_a_thread_are_nested() {
        let events = [
            (1, Some(0)),
            (2, Some(1)),
            (3, None),
            (5, None),
            (6, Some(2)),
        ];
        let budget = Budget::new(1 << 20);
        let expected = (vec![ended(1, 1), ended(0, 4)], vec![2]);
        assert_eq!(pairs(&budget, &events, false), expected);
        assert_eq!(pairs(&budget, &events, true), expected);
    }

    #[test]
    fn memory_is_bounded() {
        let budget = Budget::new(4096);
        let events: Vec<_> = (0..100_000)
            .flat_map(|n| [(2 * n, Some(0)), (2 * n + 1, None)])
            .collect();
        let (ended, open) = pairs(&budget, &events, true);
        assert_eq!((ended.len(), open.len()), (100_000, 0));
    }
}
