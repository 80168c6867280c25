//! Search for the shortest path of snapshots between two clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{ClockError, ClockGraph, ClockId};

/// The maximum number of steps between two clocks.
const MAX_STEPS: usize = 4;
/// The maximum number of relations that one search examines, to bound time.
const MAX_EXAMINED: usize = 1 << 12;
/// The number of relations after which searches examine fewer.
const MANY_EXAMINED: usize = 1 << 26;
/// The maximum number of relations that one search examines then.
const FEW_EXAMINED: usize = 1 << 8;

/// A step of a path: two clocks of a kind of snapshots.
pub(super) type Step = (ClockId, ClockId, u32);

impl ClockGraph {
    /// Returns the shortest path from one clock to another.
    pub(super) fn path(&mut self, from: ClockId, to: ClockId) -> Result<Vec<Step>, ClockError> {
        let start = self.clocks.get(&from).ok_or(ClockError::UnknownSource)?;
        let end = self.clocks.get(&to).ok_or(ClockError::UnknownTarget)?;
        if !self.not_monotonic.contains(&from)
            && let Some(kind) = first_common(&start.kinds, &end.kinds)
        {
            return Ok(vec![(from, to, kind)]);
        }
        let mut came_by = BTreeMap::new();
        let mut queue = VecDeque::from([(from, 0)]);
        let most = if self.examined < MANY_EXAMINED {
            MAX_EXAMINED
        } else {
            FEW_EXAMINED
        };
        let mut examined = 0;
        while let Some((clock, steps)) = queue.pop_front() {
            if steps >= MAX_STEPS {
                continue;
            }
            let neighbours = self.neighbours(clock, most);
            examined += neighbours.len();
            self.examined += neighbours.len();
            for (next, kind) in neighbours {
                if next == from || came_by.contains_key(&next) {
                    continue;
                }
                let step = (clock, next, kind);
                came_by.insert(next, step);
                if next == to {
                    let mut path = vec![step];
                    while let Some(step) = path.last().and_then(|step| came_by.get(&step.0)) {
                        path.push(*step);
                    }
                    path.reverse();
                    return Ok(path);
                }
                queue.push_back((next, steps + 1));
            }
            if examined > most {
                break;
            }
        }
        Err(ClockError::NoPath)
    }

    /// Returns the clocks that share a snapshot with a clock, in ascending order, each with the
    /// first kind of these snapshots: at most about as many as given.
    fn neighbours(&self, clock: ClockId, most: usize) -> Vec<(ClockId, u32)> {
        let mut found = Vec::new();
        let known = self.clocks.get(&clock);
        let known = known.filter(|_| !self.not_monotonic.contains(&clock));
        for kind in known.iter().flat_map(|clock| &clock.kinds) {
            let of_kind = &self.clocks_of_kinds[*kind as usize];
            let others = of_kind.iter().filter(|other| **other != clock);
            found.extend(others.map(|other| (*other, *kind)));
            if found.len() > most {
                break;
            }
        }
        found.sort_unstable();
        found.dedup_by_key(|(clock, _)| *clock);
        found
    }
}

/// Returns the smallest number in both sets.
fn first_common(one: &BTreeSet<u32>, other: &BTreeSet<u32>) -> Option<u32> {
    let (fewer, more) = if one.len() <= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    fewer.iter().find(|kind| more.contains(kind)).copied()
}
