//! `experimental_slice_layout('1,2,3')`: the lines on which slices of several tracks are drawn.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue};
use ferretto_tables::Trace;

use crate::computed::{TableFunction, text};

/// The function `experimental_slice_layout`.
#[derive(Debug)]
pub(super) struct SliceLayout(pub(super) Arc<Trace>);

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
        let before = self.0.range(..stack.end.max(stack.start + 1)).next_back();
        before.is_none_or(|(start, end)| *end <= stack.start && *start < stack.start)
    }
}

/// Assigns lines to stacks, the highest stacks first, each to the first free lines. Returns the
/// first line of each stack.
fn assign_lines(stacks: &[Stack]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..stacks.len()).collect();
    order.sort_by_key(|i| (usize::MAX - stacks[*i].height, stacks[*i].start, *i));
    let mut lines: Vec<Line> = Vec::new();
    let mut first_lines = vec![0; stacks.len()];
    for index in order {
        let stack = &stacks[index];
        let mut first = 0;
        let mut line = 0;
        while line < first + stack.height {
            if lines.get(line).is_some_and(|l| !l.is_free(stack)) {
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
    first_lines
}

#[async_trait]
impl TableFunction for SliceLayout {
    fn name(&self) -> &'static str {
        "experimental_slice_layout"
    }

    fn arguments(&self) -> &'static [&'static str] {
        &["track_ids"]
    }

    fn schema(&self) -> SchemaRef {
        let integer = |name| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(vec![integer("id"), integer("layout_depth")]))
    }

    async fn rows(&self, _: &dyn Session, arguments: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
        let list = text(&arguments[0]).unwrap_or_default();
        let tracks: HashSet<u32> = list
            .split(',')
            .filter_map(|t| t.trim().parse().ok())
            .collect();
        let slices = &self.0.tables().slice;
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
                    stacks.push(Stack {
                        start,
                        end,
                        height: 0,
                    });
                    stacks.len() - 1
                }
            };
            stacks[stack].end = stacks[stack].end.max(end);
            stacks[stack].height = stacks[stack].height.max(depth + 1);
            stack_of.insert(id, stack);
            members.push((id, stack, depth));
        }
        let first_lines = assign_lines(&stacks);
        let ids = members.iter().map(|(id, ..)| i64::from(*id));
        let depths = members
            .iter()
            .map(|(_, stack, depth)| (first_lines[*stack] + depth) as i64);
        Ok(vec![
            Arc::new(Int64Array::from_iter_values(ids)),
            Arc::new(Int64Array::from_iter_values(depths)),
        ])
    }
}
