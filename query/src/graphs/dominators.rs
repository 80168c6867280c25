//! Dominator trees: for each node the nearest one that is on all ways to it from the root.
//!
//! A node's *semidominator* is the first node, in the order of a depth-first walk, from which a way
//! leads to it whose other nodes all come after it in that order. The immediate dominator is the
//! nearest common node above the walk's parent and the semidominator in the tree of dominators
//! (Georgiadis, "Linear-time algorithms for dominators and related problems", 2005). It is found
//! by links that skip ever more nodes of the tree, so that even long chains cost a logarithm.

use rusqlite::Result;

use super::graph::{Graph, id};
use super::lists::Lists;
use crate::limits::Limits;
use crate::objects::{Object, failure};

/// The smallest semidominators on ways up the walk's tree. Nodes have the numbers of the walk.
struct Climb {
    /// A node above, to which the smallest semidominator is known.
    above: Vec<u32>,
    /// The smallest semidominator from the node on, without that of the node `above`.
    smallest: Vec<u32>,
    path: Vec<u32>,
}

impl Climb {
    /// Returns the smallest semidominator of the nodes from one up to the last that comes after
    /// `border`.
    fn smallest(&mut self, node: u32, border: u32) -> u32 {
        let mut at = node;
        while self.above[at as usize] > border {
            self.path.push(at);
            at = self.above[at as usize];
        }
        // Each node of the path learns what is known of the one above it, from the top on.
        let (top, mut smallest) = (self.above[at as usize], self.smallest[at as usize]);
        while let Some(below) = self.path.pop() {
            smallest = smallest.min(self.smallest[below as usize]);
            self.smallest[below as usize] = smallest;
            self.above[below as usize] = top;
        }
        smallest
    }
}

/// Returns the semidominator of each node, from the parents in the walk and the sources of edges.
fn semidominators(parents: &[u32], sources: &Lists<u32>) -> Vec<u32> {
    let own = || (0..parents.len() as u32).collect::<Vec<_>>();
    let mut semidominators = own();
    let mut climb = Climb {
        above: parents.to_vec(),
        smallest: own(),
        path: Vec::new(),
    };
    for node in (1..parents.len() as u32).rev() {
        // A way from a later node comes from below an earlier one.
        let mut smallest = parents[node as usize];
        for source in sources.of(node) {
            smallest = smallest.min(if source <= &node {
                *source
            } else {
                climb.smallest(*source, node)
            });
        }
        semidominators[node as usize] = smallest;
        climb.smallest[node as usize] = smallest;
    }
    semidominators
}

/// The tree of dominators so far: for each node the one above it, one further above, and the
/// number of nodes above.
struct Tree {
    above: Vec<u32>,
    skip: Vec<u32>,
    depth: Vec<u32>,
}

impl Tree {
    /// Adds a node below another one.
    fn add(&mut self, above: u32) {
        let skip = self.skip[above as usize];
        let depth = |node: u32| self.depth[node as usize];
        // Two skips of equal length become one, so that their lengths are powers of two.
        let further = self.skip[skip as usize];
        let is_equal = depth(above) - depth(skip) == depth(skip) - depth(further);
        let next = depth(above) + 1;
        self.above.push(above);
        self.skip.push(if is_equal { further } else { above });
        self.depth.push(next);
    }

    /// Returns the first node from one up that does not come after `border`.
    fn up_to(&self, mut node: u32, border: u32) -> u32 {
        while node > border {
            let skip = self.skip[node as usize];
            node = if skip > border {
                skip
            } else {
                self.above[node as usize]
            };
        }
        node
    }
}

/// Returns the reachable nodes in the order of a depth-first walk, with their dominators.
fn dominators(graph: &Graph, root: u32) -> Vec<(u32, Option<u32>)> {
    let found = graph.walk().entered(root);
    let mut numbers = vec![0; graph.len()];
    for (number, (node, _)) in found.iter().enumerate() {
        numbers[*node as usize] = number as u32;
    }
    let parents: Vec<u32> = found
        .iter()
        .map(|(_, from)| numbers[from.unwrap_or(root) as usize])
        .collect();
    let edges = found.iter().enumerate().flat_map(|(number, (node, _))| {
        let targets = graph.targets(*node).iter();
        targets.map({
            let numbers = &numbers;
            move |target| (numbers[*target as usize], number as u32)
        })
    });
    let semidominators = semidominators(&parents, &Lists::new(found.len(), edges));
    let mut tree = Tree {
        above: vec![0],
        skip: vec![0],
        depth: vec![0],
    };
    for node in 1..found.len() {
        tree.add(tree.up_to(parents[node], semidominators[node]));
    }
    let above = tree.above.iter().map(|above| found[*above as usize].0);
    let rows = found.iter().zip(above).enumerate();
    rows.map(|(number, ((node, _), above))| (*node, (number > 0).then_some(above)))
        .collect()
}

/// Returns the dominator tree of rows `source, target, root`.
pub(super) fn tree(edges: &Object, limits: &Limits) -> Result<Object> {
    const NAMES: [&str; 2] = ["node_id", "dominator_node_id"];
    let graph = Graph::new(&edges.rows, &[], limits)?;
    let root = id(&edges.rows.row(0)[2], "the root")?;
    let root = graph
        .node(root)
        .ok_or_else(|| failure("the root is not in the graph"))?;
    let found = dominators(&graph, root);
    if found.len() < 2 {
        return Err(failure("the root has no edge to another node"));
    }
    graph.rows(NAMES, &found, limits)
}
