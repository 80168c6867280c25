//! The row of the picture that a row of a query means.

use std::str::FromStr;

use ferretto_http::Head;
use serde_json::Value;

use crate::nodes::{Content, NONE};
use crate::view::View;

/// The columns of a row of a query that say where it is in the picture.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Target {
    /// The time in nanoseconds of the trace's clock.
    ts: i64,
    dur: Option<i64>,
    id: Option<u32>,
    track: Option<u32>,
    thread: Option<u32>,
    cpu: Option<u32>,
}

impl Target {
    /// Returns the columns of a request; `None` if it has no time.
    pub(crate) fn of(head: &Head) -> Option<Self> {
        fn value<T: FromStr>(head: &Head, name: &str) -> Option<T> {
            head.value(name)?.parse().ok()
        }
        Some(Self {
            ts: value(head, "ts")?,
            dur: value(head, "dur"),
            id: value(head, "id"),
            track: value(head, "track"),
            thread: value(head, "utid"),
            cpu: value(head, "ucpu"),
        })
    }

    fn is_at(&self, ts: i64, dur: i64) -> bool {
        ts == self.ts && self.dur.is_none_or(|known| known == dur)
    }
}

impl View {
    /// Returns the row with the time of a row of a query on its track, thread or CPU; `None` if
    /// there is none.
    pub(crate) fn locate(&self, target: &Target) -> Option<Value> {
        let by_id = target.id.and_then(|id| self.with_id(target, id));
        by_id.or_else(|| self.on_track(target)).or_else(|| {
            let state = self.state_at(target.thread?, target.ts)?;
            let states = &self.trace().tables().thread_state;
            target
                .is_at(states.ts().get(state), states.dur().get(state))
                .then(|| self.state_reference(target.thread?, target.ts))
                .flatten()
        })
    }

    fn with_id(&self, target: &Target, id: u32) -> Option<Value> {
        let tables = self.trace().tables();
        let is_of = |known: Option<u32>, of: u32| known.is_none_or(|known| known == of);
        let slice = &tables.slice;
        if id < slice.len()
            && target.is_at(slice.ts().get(id), slice.dur().get(id))
            && is_of(target.track, slice.track_id().get(id))
        {
            return self.reference_to_slice(id);
        }
        let state = &tables.thread_state;
        if id < state.len() && target.is_at(state.ts().get(id), state.dur().get(id)) {
            let thread = state.utid().get(id);
            if is_of(target.thread, thread) {
                return self.reference(self.states_node(thread)?, 0, id);
            }
        }
        let sched = &tables.sched_slice;
        if id < sched.len() && target.is_at(sched.ts().get(id), sched.dur().get(id)) {
            let cpu = sched.ucpu().get(id);
            let node = self.scene().cpu(cpu);
            if is_of(target.cpu, cpu) && node != NONE {
                return self.reference(node, 0, id);
            }
        }
        None
    }

    fn on_track(&self, target: &Target) -> Option<Value> {
        let (node, _) = self.scene().track(target.track?)?;
        let of = self.node(node)?;
        if !matches!(of.content, Content::Slices(_)) {
            return None;
        }
        let slice = &self.trace().tables().slice;
        let (lanes, _) = self.lanes(&of.content)?;
        (0..u32::from(of.depth)).find_map(|depth| {
            let rows = lanes.rows(of.lane + depth);
            let first = rows.partition_point(|row| slice.ts().get(row) < target.ts);
            let row = rows.get(first)?;
            target
                .is_at(slice.ts().get(row), slice.dur().get(row))
                .then(|| self.reference(node, depth, row))
                .flatten()
        })
    }
}
