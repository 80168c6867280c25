//! `experimental_slice_layout('1,2,3')`: the lines on which slices of several tracks are drawn.

use std::collections::{BTreeMap, HashMap, HashSet};

use ferretto_tables::Trace;
use rusqlite::Result;
use rusqlite::types::Value;

use super::StoredRows;
use super::computed::{Computed, Kind};
use crate::limits::Limits;

/// The table.
pub(super) const TABLE: Computed = Computed {
    name: "experimental_slice_layout",
    arguments: &["filter_track_ids"],
    columns: &[
        ("id", Kind::Integers),
        ("layout_depth", Kind::Integers),
        ("ts", Kind::Integers),
        ("dur", Kind::Integers),
        ("track_id", Kind::Integers),
        ("category", Kind::Texts),
        ("name", Kind::Texts),
        ("depth", Kind::Integers),
        ("parent_id", Kind::Integers),
        ("arg_set_id", Kind::Integers),
    ],
    compute: |trace, arguments, limits| {
        let list = match arguments.first() {
            Some(Value::Text(list)) => list.clone(),
            Some(Value::Integer(track)) => track.to_string(),
            _ => String::new(),
        };
        let tracks = list
            .split(',')
            .filter_map(|track| track.trim().parse().ok());
        rows(trace, &tracks.collect(), limits)
    },
};

/// A slice with all its descendants.
struct Stack {
    start: i64,
    end: i64,
    /// The number of its lines.
    height: usize,
}

/// The occupied times of a line: ends by start.
#[derive(Default)]
struct Line(BTreeMap<i64, i64>);

impl Line {
    fn is_free(&self, stack: &Stack) -> bool {
        let past = stack.end.max(stack.start.saturating_add(1));
        let before = self.0.range(..past).next_back();
        before.is_none_or(|(start, end)| *end <= stack.start && *start < stack.start)
    }
}

/// Assigns lines to stacks, the highest stacks first, each to the first free lines. Returns the
/// first line of each stack.
fn assign_lines(stacks: &[Stack], limits: &Limits) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = (0..stacks.len()).collect();
    order.sort_by_key(|index| {
        let stack = &stacks[*index];
        (std::cmp::Reverse(stack.height), stack.start)
    });
    let mut lines: Vec<Line> = Vec::new();
    let mut first_lines = vec![0; stacks.len()];
    for (position, index) in order.into_iter().enumerate() {
        if position % 1024 == 0 {
            limits.check()?;
        }
        let stack = &stacks[index];
        let (mut first, mut line) = (0, 0);
        while line < first + stack.height {
            if lines.get(line).is_some_and(|line| !line.is_free(stack)) {
                first = line + 1;
            }
            line += 1;
        }
        lines.resize_with(lines.len().max(first + stack.height), Line::default);
        for line in &mut lines[first..first + stack.height] {
            line.0.insert(stack.start, stack.end);
        }
        first_lines[index] = first;
    }
    Ok(first_lines)
}

/// Returns the rows of slices of these tracks, with their lines.
fn rows(trace: &Trace, tracks: &HashSet<u32>, limits: &Limits) -> Result<StoredRows> {
    let slices = &trace.tables().slice;
    let mut stacks: Vec<Stack> = Vec::new();
    let mut stack_of: HashMap<u32, usize> = HashMap::new();
    let mut members = Vec::new();
    for id in (0..slices.len()).filter(|id| tracks.contains(&slices.track_id().get(*id))) {
        let (start, dur) = (slices.ts().get(id), slices.dur().get(id));
        let end = if dur < 0 {
            i64::MAX
        } else {
            start.saturating_add(dur)
        };
        let depth = slices.depth().get(id) as usize;
        let parent = slices.parent_id().get(id);
        let stack = match parent.and_then(|parent| stack_of.get(&parent)) {
            Some(stack) => *stack,
            None => {
                let height = 0;
                stacks.push(Stack { start, end, height });
                stacks.len() - 1
            }
        };
        stacks[stack].end = stacks[stack].end.max(end);
        stacks[stack].height = stacks[stack].height.max(depth + 1);
        stack_of.insert(id, stack);
        members.push((id, stack, depth));
    }
    let first_lines = assign_lines(&stacks, limits)?;
    let text = |id| trace.strings().get(id).map(str::to_owned);
    let mut out = StoredRows::new(TABLE.columns.len(), limits);
    for (id, stack, depth) in members {
        out.push(i64::from(id))?;
        out.push((first_lines[stack] + depth) as i64)?;
        out.push(slices.ts().get(id))?;
        out.push(slices.dur().get(id))?;
        out.push(i64::from(slices.track_id().get(id)))?;
        out.push(text(slices.category().get(id)))?;
        out.push(text(slices.name().get(id)))?;
        out.push(i64::from(slices.depth().get(id)))?;
        out.push(slices.parent_id().get(id).map(i64::from))?;
        out.push(slices.arg_set_id().get(id).map(i64::from))?;
    }
    Ok(out)
}
