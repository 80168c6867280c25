//! A directed graph, and searches in it.

use rusqlite::Result;
use rusqlite::types::Value;

use super::lists::{Lists, Numbering};
use super::walk::Walk;
use crate::limits::{Charge, Limits};
use crate::objects::{Object, failure};
use crate::relations::StoredRows;

/// A directed graph. Nodes have ids, and numbers from 0 on.
#[derive(Debug)]
pub(super) struct Graph {
    nodes: Numbering,
    targets: Lists<u32>,
    _charge: Charge,
}

/// The number of bytes of a node or edge.
const NODE: u64 = 32;

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
        charge.grow(NODE * further.len() as u64)?;
        let mut all = further.to_vec();
        let mut edges = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            charge.grow(2 * NODE)?;
            let (source, target) = (&rows.row(row)[0], &rows.row(row)[1]);
            let source = id(source, "the source of an edge")?;
            all.push(source);
            if *target != Value::Null {
                let target = id(target, "the target of an edge")?;
                all.push(target);
                edges.push((source, target));
            }
        }
        let nodes = Numbering::new(all);
        let number = |id| nodes.number(id).unwrap_or_default();
        let pairs = edges
            .iter()
            .map(|(source, target)| (number(*source), number(*target)));
        let targets = Lists::new(nodes.len(), pairs);
        Ok(Self {
            nodes,
            targets,
            _charge: charge,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn id(&self, node: u32) -> i64 {
        self.nodes.id(node)
    }

    pub(super) fn node(&self, id: i64) -> Option<u32> {
        self.nodes.number(id)
    }

    /// Returns the targets of the edges of a node.
    pub(super) fn targets(&self, node: u32) -> &[u32] {
        self.targets.of(node)
    }

    /// Returns a depth-first walk.
    pub(super) fn walk(&self) -> Walk<'_, u32> {
        Walk::new(&self.targets)
    }

    /// Returns the nodes that are reachable in the order of a depth-first search, which begins with
    /// the last start, and the node that each was reached from.
    pub(super) fn depth_first(&self, starts: &[i64]) -> Vec<(u32, Option<u32>)> {
        let mut walk = self.walk();
        let starts = starts.iter().rev().filter_map(|id| self.node(*id));
        starts.flat_map(|start| walk.entered(start)).collect()
    }

    /// Returns the nodes that are reachable in the order of a breadth-first search, and the node
    /// that each was reached from.
    pub(super) fn breadth_first(&self, starts: &[i64]) -> Vec<(u32, Option<u32>)> {
        let mut is_known = vec![false; self.len()];
        let mut found = Vec::new();
        let mut reach = |node: u32, from, found: &mut Vec<_>| {
            if !std::mem::replace(&mut is_known[node as usize], true) {
                found.push((node, from));
            }
        };
        for start in starts.iter().filter_map(|id| self.node(*id)) {
            reach(start, None, &mut found);
        }
        let mut next = 0;
        while let Some((node, _)) = found.get(next).copied() {
            next += 1;
            for target in self.targets(node) {
                reach(*target, Some(node), &mut found);
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
