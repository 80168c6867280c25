//! A directed graph, and its traversal.

use std::collections::{HashMap, VecDeque};

use rusqlite::Result;
use rusqlite::types::Value;

use crate::limits::{Charge, Limits};
use crate::objects::{Object, failure};
use crate::relations::StoredRows;

/// A directed graph. Nodes have numbers from 0, and ids.
#[derive(Debug)]
pub(super) struct Graph {
    ids: Vec<i64>,
    numbers: HashMap<i64, u32>,
    /// The index in `targets` of the first edge of each node, and of the end.
    starts: Vec<usize>,
    targets: Vec<u32>,
    _charge: Charge,
}

/// The number of bytes of a node or edge.
const NODE: u64 = 48;

/// Reads an id.
pub(super) fn id(value: &Value, name: &str) -> Result<i64> {
    match value {
        Value::Integer(id) => Ok(*id),
        _ => Err(failure(format!("{name} must be an integer"))),
    }
}

/// Reads the ids of an object with one column.
pub(super) fn ids(object: &Object, name: &str) -> Result<Vec<i64>> {
    let rows = 0..object.rows.len();
    rows.map(|row| id(&object.rows.row(row)[0], name)).collect()
}

impl Graph {
    /// Returns the graph of rows `source, target, …`, with further nodes. A row without a target is
    /// a node.
    pub(super) fn new(rows: &StoredRows, further: &[i64], limits: &Limits) -> Result<Self> {
        let mut charge = limits.charge();
        let (mut ids, mut numbers) = (Vec::new(), HashMap::new());
        let mut number = |id: i64| {
            *numbers.entry(id).or_insert_with(|| {
                ids.push(id);
                ids.len() as u32 - 1
            })
        };
        let mut edges = Vec::new();
        for row in 0..rows.len() {
            charge.grow(2 * NODE)?;
            let (source, target) = (&rows.row(row)[0], &rows.row(row)[1]);
            let source = number(id(source, "the source of an edge")?);
            if *target != Value::Null {
                edges.push((source, number(id(target, "the target of an edge")?)));
            }
        }
        for id in further {
            charge.grow(NODE)?;
            number(*id);
        }
        // The edges of each node, in their order.
        let mut starts = vec![0; ids.len() + 1];
        for (source, _) in &edges {
            starts[*source as usize + 1] += 1;
        }
        for node in 0..ids.len() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; edges.len()];
        for (source, target) in edges {
            targets[next[source as usize]] = target;
            next[source as usize] += 1;
        }
        Ok(Self {
            ids,
            numbers,
            starts,
            targets,
            _charge: charge,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn id(&self, node: u32) -> i64 {
        self.ids[node as usize]
    }

    pub(super) fn node(&self, id: i64) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// Returns the targets of the edges of a node.
    pub(super) fn targets(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.targets[self.starts[node]..self.starts[node + 1]]
    }

    fn nodes(&self, ids: &[i64]) -> Vec<u32> {
        ids.iter().filter_map(|id| self.node(*id)).collect()
    }

    /// Returns the nodes that are reachable in the order of a depth-first search, which begins with
    /// the last start, and the node that each was reached from.
    pub(super) fn depth_first(&self, starts: &[i64]) -> Vec<(u32, Option<u32>)> {
        let mut is_known = vec![false; self.len()];
        let starts = self.nodes(starts);
        let mut stack: Vec<_> = starts.into_iter().map(|node| (node, None)).collect();
        let mut found = Vec::new();
        while let Some((node, from)) = stack.pop() {
            if std::mem::replace(&mut is_known[node as usize], true) {
                continue;
            }
            found.push((node, from));
            let targets = self.targets(node).iter().rev();
            let targets = targets.filter(|target| !is_known[**target as usize]);
            stack.extend(targets.map(|target| (*target, Some(node))));
        }
        found
    }

    /// Returns the nodes that are reachable in the order of a breadth-first search, and the node
    /// that each was reached from.
    pub(super) fn breadth_first(&self, starts: &[i64]) -> Vec<(u32, Option<u32>)> {
        let mut is_known = vec![false; self.len()];
        let mut queue = VecDeque::new();
        let mut reach = |node: u32, from, queue: &mut VecDeque<_>| {
            if !std::mem::replace(&mut is_known[node as usize], true) {
                queue.push_back((node, from));
            }
        };
        for node in self.nodes(starts) {
            reach(node, None, &mut queue);
        }
        let mut found = Vec::new();
        while let Some((node, from)) = queue.pop_front() {
            found.push((node, from));
            for target in self.targets(node) {
                reach(*target, Some(node), &mut queue);
            }
        }
        found
    }

    /// Returns rows of nodes and the nodes before them.
    pub(super) fn rows(
        &self,
        names: [&str; 2],
        found: &[(u32, Option<u32>)],
        limits: &Limits,
    ) -> Result<Object> {
        let mut rows = StoredRows::new(2, limits);
        for (node, from) in found {
            rows.push(self.id(*node))?;
            rows.push(from.map(|from| self.id(from)))?;
        }
        let names = names.map(str::to_owned).to_vec();
        Ok(Object { names, rows })
    }
}
