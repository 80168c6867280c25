//! The neighbours of rows: next, previous, parent and children, and the other ends of arrows.

use serde_json::Value;

use crate::frame::Frame;
use crate::nodes::{Content, NONE};
use crate::view::View;

/// The most arrows in an answer.
const MAX_FLOWS: usize = 10_000;
/// The maximum number of slices that are searched for children.
const MAX_LOOKED_AT: usize = 1 << 20;

/// The direction from one row to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The next row of the same depth.
    Next,
    /// The previous row of the same depth.
    Previous,
    /// The row that contains this one.
    Parent,
    /// The first row that this one contains.
    Child,
}

impl View {
    /// Returns the direct children of a slice.
    pub(crate) fn children(&self, slice: u32) -> Vec<u32> {
        let Some((node, depth)) = self.position_of_slice(slice) else {
            return Vec::new();
        };
        let of = &self.scene().nodes()[node as usize];
        if depth + 1 >= u32::from(of.depth) {
            return Vec::new();
        }
        let Some((lanes, times)) = self.lanes(&of.content) else {
            return Vec::new();
        };
        let window = times.start(slice)..times.end(slice).saturating_add(1);
        let rows = lanes.rows_within(of.lane + depth + 1, window, times);
        let parents = self.trace().tables().slice.parent_id();
        let rows = rows.iter().take(MAX_LOOKED_AT);
        rows.filter(|row| parents.get(*row) == Some(slice))
            .collect()
    }

    /// Returns a neighbour of a row; `None` if it has none.
    pub fn next(&self, node: u32, id: u32, step: Step) -> Option<Value> {
        let of = self.node(node)?;
        let slices = &self.trace().tables().slice;
        let is_slice = matches!(of.content, Content::Slices(_));
        match step {
            Step::Parent | Step::Child if !is_slice => return None,
            Step::Parent => return self.reference_to_slice(slices.parent_id().get(id)?),
            Step::Child => return self.reference_to_slice(*self.children(id).first()?),
            Step::Next | Step::Previous => {}
        }
        if let Content::Counter(_) = of.content {
            return None;
        }
        self.time_of(&of.content, id)?;
        let depth = if is_slice {
            self.position_of_slice(id)
                .filter(|position| position.0 == node)?
                .1
        } else {
            0
        };
        let (lanes, _) = self.lanes(&of.content)?;
        let rows = lanes.rows(of.lane + depth);
        let position = match of.content {
            // These tables are not sorted by time.
            Content::Lines | Content::Heap(_) => rows.iter().position(|row| row == id)?,
            _ => {
                let position = rows.partition_point(|row| row < id);
                rows.get(position)
                    .filter(|row| *row == id)
                    .map(|_| position)?
            }
        };
        let other = match step {
            Step::Next => position.checked_add(1)?,
            _ => position.checked_sub(1)?,
        };
        self.reference(node, depth, rows.get(other)?)
    }

    /// Returns the arrows with an end on one of these or any nodes in a time range, as a frame.
    pub fn arrows(&self, from: f64, to: f64, nodes: Option<&[u32]>, limit: usize) -> Vec<u8> {
        let limit = limit.min(MAX_FLOWS);
        let window = self.absolute(from)..self.absolute(to);
        let slices = &self.trace().tables().slice;
        let wanted = nodes.map(|nodes| {
            let mut wanted = vec![false; self.scene().nodes().len()];
            for node in self.with_events(Some(nodes)) {
                wanted[node as usize] = true;
            }
            wanted
        });
        let mut columns: [Vec<u32>; 6] = Default::default();
        let (mut from_time, mut to_time) = (Vec::new(), Vec::new());
        let mut total = 0_u64;
        let table = &self.trace().tables().flow;
        for row in 0..table.len() {
            let ends = [table.slice_out().get(row), table.slice_in().get(row)];
            if !ends
                .iter()
                .any(|end| window.contains(&slices.ts().get(*end)))
            {
                continue;
            }
            let positions = ends.map(|end| self.position_of_slice(end).unwrap_or((NONE, 0)));
            let is_wanted = positions.iter().any(|(node, _)| match &wanted {
                None => *node != NONE,
                Some(wanted) => wanted.get(*node as usize) == Some(&true),
            });
            if !is_wanted || positions.iter().any(|position| position.0 == NONE) {
                continue;
            }
            total += 1;
            if from_time.len() >= limit {
                continue;
            }
            let [(from_node, from_depth), (to_node, to_depth)] = positions;
            let row = [from_node, ends[0], from_depth, to_node, ends[1], to_depth];
            for (column, value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
            from_time.push(self.relative(slices.ts().get(ends[0])));
            to_time.push(self.relative(slices.ts().get(ends[1])));
        }
        let mut frame = Frame::new("flows");
        frame.field("total", total);
        const NAMES: [&str; 6] = [
            "from_node",
            "from_id",
            "from_depth",
            "to_node",
            "to_id",
            "to_depth",
        ];
        for (name, column) in NAMES.iter().zip(&columns) {
            frame.u32s(name, column);
        }
        frame.f64s("from_time", &from_time);
        frame.f64s("to_time", &to_time);
        frame.finish()
    }
}
