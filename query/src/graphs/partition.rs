//! The parts of a tree by group: each node with the nearest node above it that has its group.

use rusqlite::Result;
use rusqlite::types::Value;

use super::graph::id;
use super::lists::{Lists, Numbering};
use super::walk::{Step, Walk};
use crate::limits::Limits;
use crate::objects::{Object, failure};
use crate::relations::StoredRows;

/// A row of the input.
struct Row {
    id: i64,
    parent: Option<i64>,
    group: i64,
}

fn read(tree: &Object) -> Result<Vec<Row>> {
    let rows = (0..tree.rows.len()).map(|row| {
        let values = tree.rows.row(row);
        let parent = match &values[1] {
            Value::Null => None,
            value => Some(id(value, "the parent of a node")?),
        };
        Ok(Row {
            id: id(&values[0], "the id of a node")?,
            parent,
            group: id(&values[2], "the group of a node")?,
        })
    });
    rows.collect()
}

/// Returns rows `node_id, parent_node_id, group_key` of a tree with the rows `id, parent, group`.
///
/// In the order of a walk, the nodes below another one come right after it. So the nodes of a group
/// are nested ranges, and the nearest node above is the innermost open range of the group.
pub(super) fn partition(tree: &Object, limits: &Limits) -> Result<Object> {
    let mut charge = limits.charge();
    charge.grow(96 * tree.rows.len() as u64)?;
    let rows = read(tree)?;
    let nodes = Numbering::new(rows.iter().map(|row| row.id).collect());
    if nodes.len() < rows.len() {
        return Err(failure("the tree has two rows with the same id"));
    }
    let number = |id| nodes.number(id);
    let mut roots = rows.iter().filter(|row| row.parent.is_none());
    let root = roots.next().and_then(|row| number(row.id));
    let root = root.ok_or_else(|| failure("the tree has no root, which has no parent"))?;
    if roots.next().is_some() {
        return Err(failure("the tree has several roots, which have no parent"));
    }
    let groups = Numbering::new(rows.iter().map(|row| row.group).collect());
    let mut group_of = vec![0; nodes.len()];
    for row in &rows {
        let (node, group) = (number(row.id), groups.number(row.group));
        if let (Some(node), Some(group)) = (node, group) {
            group_of[node as usize] = group;
        }
    }
    let edges = rows
        .iter()
        .filter_map(|row| Some((number(row.parent?)?, number(row.id)?)));
    let children = Lists::new(nodes.len(), edges);
    let mut walk = Walk::new(&children);
    // The nodes in the order of the walk, and the index after the last node below each.
    let (mut order, mut ends, mut open) = (vec![root], vec![0], vec![0]);
    walk.begin(root);
    while let Some(step) = walk.step() {
        match step {
            Step::Enter { node, .. } => {
                open.push(order.len());
                order.push(node);
                ends.push(0);
            }
            Step::Leave(_) => {
                if let Some(position) = open.pop() {
                    ends[position] = order.len();
                }
            }
        }
    }
    let by_group = order.iter().enumerate();
    let by_group = by_group.map(|(position, node)| (group_of[*node as usize], position as u32));
    let mut above = vec![None; order.len()];
    let of_groups = Lists::new(groups.len(), by_group);
    for group in 0..groups.len() as u32 {
        let mut ranges: Vec<u32> = Vec::new();
        for position in of_groups.of(group) {
            while ranges
                .pop_if(|outer| ends[*outer as usize] <= *position as usize)
                .is_some()
            {}
            above[*position as usize] = ranges.last().map(|outer| order[*outer as usize]);
            ranges.push(*position);
        }
    }
    let mut out = StoredRows::new(3, limits);
    for (node, above) in order.iter().zip(above) {
        out.push(nodes.id(*node))?;
        out.push(above.map(|above| nodes.id(above)))?;
        out.push(groups.id(group_of[*node as usize]))?;
    }
    let names = ["node_id", "parent_node_id", "group_key"];
    let names = names.map(str::to_owned).to_vec();
    Ok(Object { names, rows: out })
}
