//! Lanes: tracks that are merged into one although their slices overlap.
//!
//! A slice whose end is a separate event has a cookie. It holds its lane while it is open. A new
//! slice takes the lowest free lane.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::store::Store;
use crate::trackers::track::{Dimension, EventKind, TrackKey, TrackSpec, TrackTracker};

/// The groups of lanes, by the common identity of their tracks.
#[derive(Debug, Default)]
pub(crate) struct LaneTracker {
    by_key: FxHashMap<TrackKey, u32>,
    groups: Vec<Group>,
}

#[derive(Debug, Default)]
struct Group {
    lanes: Vec<Lane>,
    /// The current or last lane of each cookie.
    of_cookies: FxHashMap<i64, u32>,
    /// The free ones among these lanes.
    free: BTreeSet<u32>,
}

/// The maximum number of lanes that are searched for slices with known ends. Further slices share
/// the last lane.
const MAX_SEARCHED: usize = 1 << 12;

#[derive(Debug)]
struct Lane {
    holder: Holder,
    track: Option<u32>,
}

#[derive(Debug)]
enum Holder {
    /// Slices with a cookie, and the number of open ones.
    Cookie { cookie: i64, open: u32 },
    /// Slices with known ends, and the end of the last one.
    Until(i64),
    /// Nested slices with known ends, the innermost last.
    Nested(Vec<i64>),
}

/// The way in which slices with the same cookie share a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// They nest, and each has its own end.
    Nested,
    /// The first end ends all of them.
    Flat,
}

/// A lane of a group, and its track if it has one.
pub(crate) type LaneId = (u32, u32, Option<u32>);

impl LaneTracker {
    /// Returns the group of tracks with this type and these dimensions.
    pub(crate) fn group(
        &mut self,
        store: &Store,
        type_: &'static str,
        dimensions: &[Dimension],
    ) -> u32 {
        let key = TrackKey::new(store.machine, type_, EventKind::Slice, dimensions);
        let groups = &mut self.groups;
        *self.by_key.entry(key).or_insert_with(|| {
            groups.push(Group::default());
            groups.len() as u32 - 1
        })
    }

    /// Returns the lane for the begin of a slice.
    pub(crate) fn begin(&mut self, group: u32, cookie: i64, nesting: Nesting) -> LaneId {
        let index = self.of_cookie(group, cookie);
        let of = &mut self.groups[group as usize];
        if let Holder::Cookie { open, .. } = &mut of.lanes[index].holder {
            *open = match nesting {
                Nesting::Nested => *open + 1,
                Nesting::Flat => 1,
            };
            of.free.remove(&(index as u32));
        }
        self.lane(group, index)
    }

    /// Returns the lane for the end of a slice.
    pub(crate) fn end(&mut self, group: u32, cookie: i64) -> LaneId {
        let index = self.of_cookie(group, cookie);
        let of = &mut self.groups[group as usize];
        if let Holder::Cookie { open, .. } = &mut of.lanes[index].holder {
            *open = open.saturating_sub(1);
            if *open == 0 {
                of.free.insert(index as u32);
            }
        }
        self.lane(group, index)
    }

    /// Returns the lane for an instant.
    pub(crate) fn instant(&mut self, group: u32, cookie: i64) -> LaneId {
        self.begin(group, cookie, Nesting::Nested);
        self.end(group, cookie)
    }

    /// Returns the lane for a slice with a known end.
    pub(crate) fn scoped(&mut self, group: u32, ts: i64, dur: i64) -> LaneId {
        let until = ts.saturating_add(dur);
        let lanes = &mut self.groups[group as usize].lanes;
        let free = |lane: &Lane| matches!(lane.holder, Holder::Until(end) if end <= ts);
        let holder = Holder::Until(until);
        let index = match lanes.iter().position(free) {
            Some(index) => {
                lanes[index].holder = holder;
                index
            }
            None if lanes.len() >= MAX_SEARCHED => lanes.len() - 1,
            None => add(lanes, holder),
        };
        self.lane(group, index)
    }

    /// Returns the lane for a slice with a known end that may contain others.
    pub(crate) fn nested(&mut self, group: u32, ts: i64, dur: i64) -> LaneId {
        let until = ts.saturating_add(dur);
        let lanes = &mut self.groups[group as usize].lanes;
        let fits = |lane: &mut Lane| match &mut lane.holder {
            Holder::Nested(ends) => {
                while ends.last().is_some_and(|end| *end <= ts) {
                    ends.pop();
                }
                let fits = ends.last().is_none_or(|end| until <= *end);
                if fits {
                    ends.push(until);
                }
                fits
            }
            _ => false,
        };
        let index = match lanes.iter_mut().position(fits) {
            Some(index) => index,
            None if lanes.len() >= MAX_SEARCHED => lanes.len() - 1,
            None => add(lanes, Holder::Nested(vec![until])),
        };
        self.lane(group, index)
    }

    /// Returns the first lane of a group.
    pub(crate) fn first(&mut self, group: u32) -> LaneId {
        if self.groups[group as usize].lanes.is_empty() {
            self.of_cookie(group, 0);
        }
        self.lane(group, 0)
    }

    /// Returns the track of a lane, and adds it if it is missing. `spec` describes it without the
    /// number of the lane.
    pub(crate) fn track<'a>(
        &mut self,
        store: &mut Store,
        (group, index, track): LaneId,
        spec: impl FnOnce(&mut Store) -> (TrackSpec<'a>, Vec<Dimension>),
    ) -> u32 {
        if let Some(track) = track {
            return track;
        }
        let (spec, mut dimensions) = spec(store);
        dimensions.push(Dimension::Int("track_compressor_idx", index.into()));
        let spec = TrackSpec {
            dimensions: &dimensions,
            ..spec
        };
        let track = TrackTracker::create(store, spec);
        store.tables.track.track_group_id.set(track, Some(group));
        self.groups[group as usize].lanes[index as usize].track = Some(track);
        track
    }

    fn lane(&self, group: u32, index: usize) -> LaneId {
        let track = self.groups[group as usize].lanes[index].track;
        (group, index as u32, track)
    }

    fn of_cookie(&mut self, group: u32, wanted: i64) -> usize {
        let of = &mut self.groups[group as usize];
        if let Some(index) = of.of_cookies.get(&wanted) {
            return *index as usize;
        }
        let holder = Holder::Cookie {
            cookie: wanted,
            open: 0,
        };
        let index = match of.free.first() {
            Some(index) => {
                let lane = &mut of.lanes[*index as usize];
                if let Holder::Cookie { cookie, .. } = lane.holder {
                    of.of_cookies.remove(&cookie);
                }
                lane.holder = holder;
                *index
            }
            None => {
                let index = add(&mut of.lanes, holder) as u32;
                of.free.insert(index);
                index
            }
        };
        of.of_cookies.insert(wanted, index);
        index as usize
    }
}

fn add(lanes: &mut Vec<Lane>, holder: Holder) -> usize {
    lanes.push(Lane {
        holder,
        track: None,
    });
    lanes.len() - 1
}
