//! Relations between rows of a trace: ancestors, descendants, flows, CPU time of slices. No SQL
//! engine is needed to compute them.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use ferretto_tables::Trace;

use crate::functions::fnv;

/// A kind of relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The slices that contain a slice.
    SliceAncestors,
    /// The slices in a slice.
    SliceDescendants,
    /// The callers of a callsite.
    CallsiteAncestors,
    /// The slices that a flow connects with a slice.
    FlowDirect,
    /// The flows after a slice.
    FlowFollowing,
    /// The flows before a slice.
    FlowPreceding,
    /// The time of a slice on a CPU.
    SliceSched,
    /// A slice and the slices that contain it.
    SliceAndAncestors,
    /// A slice and the slices in it.
    SliceAndDescendants,
    /// The id of the stack of a slice.
    SliceStack,
}

/// The relations with their names and columns.
pub const RELATIONS: &[(Relation, &str, [&str; 2])] = &[
    (
        Relation::SliceAncestors,
        "__slice_ancestors",
        ["origin", "other"],
    ),
    (
        Relation::SliceDescendants,
        "__slice_descendants",
        ["origin", "other"],
    ),
    (
        Relation::CallsiteAncestors,
        "__callsite_ancestors",
        ["origin", "other"],
    ),
    (Relation::FlowDirect, "__flow_direct", ["origin", "other"]),
    (
        Relation::FlowFollowing,
        "__flow_following",
        ["origin", "other"],
    ),
    (
        Relation::FlowPreceding,
        "__flow_preceding",
        ["origin", "other"],
    ),
    (
        Relation::SliceSched,
        "__slice_sched",
        ["slice_id", "overlap"],
    ),
    (
        Relation::SliceAndAncestors,
        "__slice_and_ancestors",
        ["origin", "other"],
    ),
    (
        Relation::SliceAndDescendants,
        "__slice_and_descendants",
        ["origin", "other"],
    ),
    (
        Relation::SliceStack,
        "__slice_stack",
        ["slice_id", "stack_id"],
    ),
];

/// Lists of ids, stored consecutively.
#[derive(Debug, Default)]
struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Groups items by their owners, which are less than `owners`.
    fn new(owners: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; owners + 1];
        for (owner, _) in pairs.clone() {
            if let Some(count) = starts.get_mut(owner as usize + 1) {
                *count += 1;
            }
        }
        for index in 0..owners {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut items = vec![0; starts.last().copied().unwrap_or(0) as usize];
        for (owner, item) in pairs {
            if (owner as usize) < owners {
                items[next[owner as usize] as usize] = item;
                next[owner as usize] += 1;
            }
        }
        Self { starts, items }
    }

    fn of(&self, owner: u32) -> &[u32] {
        match self.starts.get(owner as usize..=owner as usize + 1) {
            Some([start, end]) => &self.items[*start as usize..*end as usize],
            _ => &[],
        }
    }
}

/// Indexes of a trace, built on first use.
#[derive(Debug)]
pub struct Index {
    trace: Arc<Trace>,
    children: OnceLock<Lists>,
    flows_out: OnceLock<Lists>,
    flows_in: OnceLock<Lists>,
    sched: OnceLock<SchedTimes>,
}

/// The scheduling slices of each thread, with the accumulated CPU time.
#[derive(Debug)]
struct SchedTimes {
    lists: Lists,
    /// For each item of the lists, the CPU time of the thread before it.
    before: Vec<i64>,
}

impl Index {
    /// Returns the indexes of a trace, none of which is built.
    pub fn new(trace: &Arc<Trace>) -> Self {
        Self {
            trace: trace.clone(),
            children: OnceLock::new(),
            flows_out: OnceLock::new(),
            flows_in: OnceLock::new(),
            sched: OnceLock::new(),
        }
    }

    fn children(&self) -> &Lists {
        self.children.get_or_init(|| {
            let slices = &self.trace.tables().slice;
            let pairs = (0..slices.len())
                .filter_map(|id| slices.parent_id().get(id).map(|parent| (parent, id)));
            Lists::new(slices.len() as usize, pairs)
        })
    }

    fn flows(&self, out: bool) -> &Lists {
        let lists = if out { &self.flows_out } else { &self.flows_in };
        lists.get_or_init(|| {
            let tables = self.trace.tables();
            let flows = &tables.flow;
            let column = if out {
                flows.slice_out()
            } else {
                flows.slice_in()
            };
            Lists::new(
                tables.slice.len() as usize,
                (0..flows.len()).map(|id| (column.get(id), id)),
            )
        })
    }

    fn sched(&self) -> &SchedTimes {
        self.sched.get_or_init(|| {
            let tables = self.trace.tables();
            let sched = &tables.sched_slice;
            let lists = Lists::new(
                tables.thread.len() as usize,
                (0..sched.len())
                    .filter(|id| sched.dur().get(*id) > 0)
                    .map(|id| (sched.utid().get(id), id)),
            );
            let mut before = vec![0; lists.items.len()];
            for owner in 0..tables.thread.len() {
                let start = lists.starts[owner as usize] as usize;
                let mut total = 0;
                for (index, id) in lists.of(owner).iter().enumerate() {
                    before[start + index] = total;
                    total += sched.dur().get(*id);
                }
            }
            SchedTimes { lists, before }
        })
    }

    /// Returns the CPU time of a thread before `ts`.
    fn cpu_time_before(&self, utid: u32, ts: i64) -> i64 {
        let times = self.sched();
        let sched = &self.trace.tables().sched_slice;
        let rows = times.lists.of(utid);
        let index = rows.partition_point(|id| sched.ts().get(*id) < ts);
        let Some(last) = index.checked_sub(1) else {
            return 0;
        };
        let start = times.lists.starts[utid as usize] as usize;
        let id = rows[last];
        times.before[start + last] + (ts - sched.ts().get(id)).min(sched.dur().get(id))
    }

    /// Returns the number of origins.
    pub fn origins(&self, relation: Relation) -> usize {
        let tables = self.trace.tables();
        match relation {
            Relation::CallsiteAncestors => tables.stack_profile_callsite.len() as usize,
            _ => tables.slice.len() as usize,
        }
    }

    fn ancestors(&self, id: u32, mut each: impl FnMut(u32)) {
        let parents = self.trace.tables().slice.parent_id();
        let mut at = id;
        // Parents have smaller ids, so the loop ends.
        while let Some(parent) = parents.get(at).filter(|parent| *parent < at) {
            each(parent);
            at = parent;
        }
    }

    fn descendants(&self, id: u32, mut each: impl FnMut(u32)) {
        let children = self.children();
        let mut stack: Vec<u32> = children.of(id).iter().rev().copied().collect();
        while let Some(next) = stack.pop() {
            each(next);
            stack.extend(
                children
                    .of(next)
                    .iter()
                    .rev()
                    .filter(|child| **child > next),
            );
        }
    }

    /// Returns an id for the categories and names of a slice and its ancestors: the hash of the
    /// list of their hashes. The list starts with the slice, followed by its ancestors from the
    /// outermost inwards.
    fn stack(&self, id: u32) -> i64 {
        let slices = &self.trace.tables().slice;
        let strings = self.trace.strings();
        let member = |id: u32| {
            let category = strings.text(slices.category().get(id));
            let name = strings.get(slices.name().get(id))?;
            Some(fnv([category, "|", name]).to_string())
        };
        let mut above = Vec::new();
        self.ancestors(id, |id| above.push(id));
        let members = std::iter::once(id).chain(above.into_iter().rev());
        let hashes: Vec<String> = members.filter_map(member).collect();
        if hashes.is_empty() {
            return 0;
        }
        fnv([hashes.join("|").as_str()])
    }

    /// Follows flows from a slice transitively. With `around`, flows of the descendants (outgoing
    /// ones) or ancestors (incoming ones) of each slice are followed, too.
    fn walk(&self, id: u32, out: bool, around: bool, found: &mut Vec<i64>) {
        let flows = &self.trace.tables().flow;
        let mut seen = HashSet::from([id]);
        let mut followed = HashSet::new();
        let mut queue = vec![id];
        while let Some(slice) = queue.pop() {
            let mut members = vec![slice];
            if around && out {
                self.descendants(slice, |id| members.push(id));
            } else if around {
                self.ancestors(slice, |id| members.push(id));
            }
            for member in members {
                for flow in self.flows(out).of(member) {
                    if !followed.insert(*flow) {
                        continue;
                    }
                    found.push(i64::from(*flow));
                    let next = if out {
                        flows.slice_in().get(*flow)
                    } else {
                        flows.slice_out().get(*flow)
                    };
                    if seen.insert(next) {
                        queue.push(next);
                    }
                }
            }
        }
    }

    /// Adds the related values of an origin.
    pub fn others(&self, relation: Relation, origin: u32, found: &mut Vec<i64>) {
        match relation {
            Relation::SliceAncestors => {
                let start = found.len();
                self.ancestors(origin, |id| found.push(id.into()));
                found[start..].reverse();
            }
            Relation::SliceDescendants => {
                let start = found.len();
                self.descendants(origin, |id| found.push(id.into()));
                found[start..].sort_unstable();
            }
            Relation::SliceAndAncestors => {
                self.others(Relation::SliceAncestors, origin, found);
                found.push(origin.into());
            }
            Relation::SliceAndDescendants => {
                found.push(origin.into());
                self.others(Relation::SliceDescendants, origin, found);
            }
            Relation::SliceStack => found.push(self.stack(origin)),
            Relation::CallsiteAncestors => {
                let parents = self.trace.tables().stack_profile_callsite.parent_id();
                let mut at = origin;
                while let Some(parent) = parents.get(at).filter(|parent| *parent < at) {
                    found.push(parent.into());
                    at = parent;
                }
            }
            Relation::FlowDirect => {
                self.walk(origin, true, false, found);
                self.walk(origin, false, false, found);
            }
            Relation::FlowFollowing => self.walk(origin, true, true, found),
            Relation::FlowPreceding => self.walk(origin, false, true, found),
            Relation::SliceSched => {
                let tables = self.trace.tables();
                let (ts, dur) = (
                    tables.slice.ts().get(origin),
                    tables.slice.dur().get(origin),
                );
                let track = tables.slice.track_id().get(origin);
                if let Some(utid) = tables.track.utid().get(track)
                    && dur > 0
                {
                    let end = self.cpu_time_before(utid, ts.saturating_add(dur));
                    let time = end - self.cpu_time_before(utid, ts);
                    if time > 0 {
                        found.push(time);
                    }
                }
            }
        }
    }
}
