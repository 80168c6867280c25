//! Dominator trees, by the algorithm of Lengauer and Tarjan.

use rusqlite::Result;
use rusqlite::types::Value;

use super::graph::{Graph, id};
use crate::limits::Limits;
use crate::objects::{Object, failure};

const NONE: u32 = u32::MAX;

/// The nodes of the spanning tree so far, with compressed paths.
struct Forest {
    ancestor: Vec<u32>,
    /// The node with the smallest semidominator on the path to the ancestor.
    label: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// Returns the node with the smallest semidominator on the path to the root of its tree.
    fn smallest(&mut self, node: u32, semidominators: &[u32]) -> u32 {
        if self.ancestor[node as usize] == NONE {
            return node;
        }
        let mut at = node;
        while self.ancestor[self.ancestor[at as usize] as usize] != NONE {
            self.path.push(at);
            at = self.ancestor[at as usize];
        }
        while let Some(node) = self.path.pop() {
            let above = self.ancestor[node as usize];
            let (label, other) = (self.label[node as usize], self.label[above as usize]);
            if semidominators[other as usize] < semidominators[label as usize] {
                self.label[node as usize] = other;
            }
            self.ancestor[node as usize] = self.ancestor[above as usize];
        }
        self.label[node as usize]
    }
}

/// Returns the reachable nodes in the order of a depth-first search, with their dominators.
fn dominators(graph: &Graph, root: i64) -> Vec<(u32, Option<u32>)> {
    let found = graph.depth_first(&[root]);
    let mut numbers = vec![NONE; graph.len()];
    for (number, (node, _)) in found.iter().enumerate() {
        numbers[*node as usize] = number as u32;
    }
    // From here on, nodes have the numbers of the search.
    let parents: Vec<u32> = found
        .iter()
        .map(|(_, from)| from.map_or(NONE, |from| numbers[from as usize]))
        .collect();
    let mut sources: Vec<Vec<u32>> = vec![Vec::new(); found.len()];
    for (number, (node, _)) in found.iter().enumerate() {
        for target in graph.targets(*node) {
            sources[numbers[*target as usize] as usize].push(number as u32);
        }
    }
    let count = found.len() as u32;
    let mut semidominators: Vec<u32> = (0..count).collect();
    let mut dominator = vec![0; found.len()];
    let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); found.len()];
    let mut forest = Forest {
        ancestor: vec![NONE; found.len()],
        label: (0..count).collect(),
        path: Vec::new(),
    };
    for node in (1..count).rev() {
        for source in &sources[node as usize] {
            let smallest = forest.smallest(*source, &semidominators);
            let semidominator = semidominators[smallest as usize];
            semidominators[node as usize] = semidominators[node as usize].min(semidominator);
        }
        waiting[semidominators[node as usize] as usize].push(node);
        let parent = parents[node as usize];
        forest.ancestor[node as usize] = parent;
        for other in std::mem::take(&mut waiting[parent as usize]) {
            let smallest = forest.smallest(other, &semidominators);
            let is_below = semidominators[smallest as usize] < semidominators[other as usize];
            dominator[other as usize] = if is_below { smallest } else { parent };
        }
    }
    for node in 1..found.len() {
        if dominator[node] != semidominators[node] {
            dominator[node] = dominator[dominator[node] as usize];
        }
    }
    let dominators = found.iter().enumerate().map(|(number, (node, _))| {
        let above = (number > 0).then(|| found[dominator[number] as usize].0);
        (*node, above)
    });
    dominators.collect()
}

/// Returns the dominator tree of rows `source, target, root`.
pub(super) fn tree(edges: &Object, limits: &Limits) -> Result<Object> {
    const NAMES: [&str; 2] = ["node_id", "dominator_node_id"];
    let graph = Graph::new(&edges.rows, &[], limits)?;
    let root = id(&edges.rows.row(0)[2], "the root")?;
    if graph.node(root).is_none() {
        return Err(failure("the root is not in the graph"));
    }
    let found = dominators(&graph, root);
    if found.len() < 2 {
        return Err(failure("the root has no edge to another node"));
    }
    graph.rows(NAMES, &found, limits)
}

/// Returns the parts of a tree of rows `id, parent, group`: each node with the nearest node above
/// it that has its group.
pub(super) fn partition(tree: &Object, limits: &Limits) -> Result<Object> {
    use std::collections::HashMap;

    use crate::relations::StoredRows;

    let mut root = None;
    let mut groups = HashMap::new();
    let mut edges = StoredRows::new(2, limits);
    for row in 0..tree.rows.len() {
        let values = tree.rows.row(row);
        let node = id(&values[0], "the id of a node")?;
        groups.insert(node, id(&values[2], "the group of a node")?);
        if values[1] == Value::Null {
            if root.replace(node).is_some() {
                return Err(failure("the tree has several roots, which have no parent"));
            }
            continue;
        }
        edges.extend([values[1].clone(), Value::Integer(node)])?;
    }
    let root = root.ok_or_else(|| failure("the tree has no root, which has no parent"))?;
    let graph = Graph::new(&edges, &[root], limits)?;
    let mut rows = StoredRows::new(3, limits);
    // The nearest node above of each group; `None` leaves a node.
    let mut nearest: HashMap<i64, i64> = HashMap::new();
    let mut is_known = vec![false; graph.len()];
    enum Step {
        Enter(u32),
        Leave(i64, Option<i64>),
    }
    let mut stack: Vec<Step> = graph.node(root).map(Step::Enter).into_iter().collect();
    while let Some(step) = stack.pop() {
        let node = match step {
            Step::Enter(node) => node,
            Step::Leave(group, Some(before)) => {
                nearest.insert(group, before);
                continue;
            }
            Step::Leave(group, None) => {
                nearest.remove(&group);
                continue;
            }
        };
        if std::mem::replace(&mut is_known[node as usize], true) {
            return Err(failure("the tree has a node with two parents"));
        }
        let id = graph.id(node);
        let group = groups.get(&id).copied();
        let group = group.ok_or_else(|| failure("the parent of a node is missing"))?;
        let above = nearest.insert(group, id);
        rows.push(id)?;
        rows.push(above)?;
        rows.push(group)?;
        stack.push(Step::Leave(group, above));
        stack.extend(graph.targets(node).iter().map(|child| Step::Enter(*child)));
    }
    let names = ["node_id", "parent_node_id", "group_key"];
    let names = names.map(str::to_owned).to_vec();
    Ok(Object { names, rows })
}
