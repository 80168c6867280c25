//! Lanes: the tracks of slices that overlap, such as requests to a disk.
//!
//! The tables put slices that overlap on several tracks, in the order of one part of a trace. So a
//! slice that continues may have another track in the next part. Here, lanes are given anew, and a
//! slice keeps its lane in all parts.

use std::collections::HashMap;

use ferretto_format::budget::entry_bytes;

use super::carry::{KeptSlice, Slice};
use super::tracks::{Group, Lane, Shown};

/// The lanes of all groups, and their open slices.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The time until which each lane has a slice.
    until: HashMap<Group, Vec<i64>>,
    /// The open slices of earlier parts.
    open: HashMap<Group, Vec<Waiting>>,
    /// The open slices of this part.
    next: HashMap<Group, Vec<Waiting>>,
}

/// A slice that has not ended.
#[derive(Debug)]
struct Waiting {
    lane: u32,
    slice: KeptSlice,
}

/// A slice at its start in a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun<'a> {
    pub(super) slice: &'a Slice<'a>,
    /// The start of a slice that the part repeats, if it has the argument.
    pub(super) began: Option<i64>,
    /// True if the part may repeat it: it does not start after the earlier parts.
    pub(super) may_continue: bool,
}

impl Lanes {
    /// Returns the lane, the ids and the start of a slice of earlier parts that this one continues.
    pub(super) fn continue_slice(
        &mut self,
        group: Group,
        begun: Begun<'_>,
    ) -> Option<(u32, Shown, i64)> {
        let open = self.open.get_mut(&group)?;
        let Begun {
            slice,
            began,
            may_continue,
        } = begun;
        let start = began.unwrap_or(slice.ts);
        let of_name = |waiting: &Waiting| waiting.slice.name == slice.name;
        let of_args = |waiting: &Waiting| waiting.slice.args == slice.args;
        let of_start = |waiting: &Waiting| waiting.slice.ts == start;
        // An old slice of the kernel is repeated with a later start.
        let is_late = |waiting: &Waiting| may_continue && waiting.slice.ts < start;
        let find = |is_it: &dyn Fn(&Waiting) -> bool| {
            let mut waiting = open.iter();
            waiting.position(|waiting| of_name(waiting) && is_it(waiting))
        };
        let found = find(&|it| of_start(it) && of_args(it)).or_else(|| match began {
            Some(_) => find(&of_start),
            None => find(&|it| of_args(it) && is_late(it)),
        })?;
        let waiting = open.remove(found);
        Some((waiting.lane, waiting.slice.at, waiting.slice.ts))
    }

    /// Returns the lowest lane of a group that is free at a time.
    pub(super) fn free(&mut self, group: Group, ts: i64) -> u32 {
        let lanes = self.until.entry(group).or_default();
        let free = lanes.iter().position(|until| *until <= ts);
        let lane = free.unwrap_or(lanes.len());
        if free.is_none() {
            lanes.push(i64::MIN);
        }
        lane as u32
    }

    /// Occupies a lane until a time.
    pub(super) fn occupy(&mut self, (group, lane): Lane, until: i64) {
        let lanes = self.until.entry(group).or_default();
        if let Some(known) = lanes.get_mut(lane as usize) {
            *known = until;
        }
    }

    /// Keeps an open slice for the next parts. It occupies its lane.
    pub(super) fn keep_open(&mut self, (group, lane): Lane, slice: KeptSlice) {
        self.occupy((group, lane), i64::MAX);
        let next = self.next.entry(group).or_default();
        next.push(Waiting { lane, slice });
    }

    /// Returns its memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let lanes: usize = self.until.values().map(Vec::len).sum();
        let open: usize = self
            .open
            .values()
            .flatten()
            .map(|waiting| size_of::<u32>() + waiting.slice.memory())
            .sum();
        open + lanes * size_of::<i64>()
            + self.until.len() * entry_bytes::<(Group, Vec<i64>)>()
            + self.open.len() * entry_bytes::<(Group, Vec<Waiting>)>()
    }

    /// Ends a part. Slices that it did not continue stay open.
    pub(super) fn end_part(&mut self) {
        for (group, slices) in std::mem::take(&mut self.next) {
            self.open.entry(group).or_default().extend(slices);
        }
        self.open.retain(|_, slices| !slices.is_empty());
    }

    /// Returns the slices that never ended.
    pub(super) fn take_open(&mut self) -> Vec<KeptSlice> {
        let mut open: Vec<_> = self.open.drain().flat_map(|(_, slices)| slices).collect();
        open.sort_by_key(|waiting| (waiting.slice.at, waiting.slice.ts));
        open.into_iter().map(|waiting| waiting.slice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(ts: i64, name: &'static str, at: i64) -> KeptSlice {
        Slice {
            at: (0, at),
            ts,
            name: name.into(),
            category: "".into(),
            args: Vec::new(),
            is_request: true,
        }
    }

    #[test]
    fn slices_keep_their_lanes_in_all_parts() {
        let (mut lanes, group) = (Lanes::default(), Group(1));
        for (ts, name) in [(5, "write"), (7, "write"), (8, "read")] {
            let lane = lanes.free(group, ts);
            lanes.keep_open((group, lane), slice(ts, name, lane.into()));
        }
        lanes.end_part();
        let mut continued = |slice: &KeptSlice, began, may_continue| {
            let begun = Begun {
                slice,
                began,
                may_continue,
            };
            lanes.continue_slice(group, begun)
        };
        // In another order, one with an argument, and one that is too old to keep its start.
        assert_eq!(
            continued(&slice(8, "read", 9), None, true),
            Some((2, (0, 2), 8))
        );
        assert_eq!(
            continued(&slice(90, "write", 9), Some(7), true),
            Some((1, (0, 1), 7))
        );
        assert_eq!(
            continued(&slice(91, "write", 9), None, false),
            None,
            "a new slice"
        );
        assert_eq!(
            continued(&slice(90, "write", 9), None, true),
            Some((0, (0, 0), 5))
        );
        assert_eq!(lanes.free(group, 90), 3);
        lanes.occupy((group, 1), 95);
        assert_eq!((lanes.free(group, 94), lanes.free(group, 95)), (3, 1));
    }
}
