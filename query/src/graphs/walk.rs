//! Depth-first walks, which all operators on graphs and trees share.

use super::lists::Lists;

/// An edge in the list of its source.
pub(super) trait Edge: Copy + Default {
    fn target(self) -> u32;
}

impl Edge for u32 {
    fn target(self) -> u32 {
        self
    }
}

/// An edge with a weight.
impl Edge for (u32, i64) {
    fn target(self) -> u32 {
        self.0
    }
}

/// A step of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<T> {
    /// A node is reached along an edge.
    Enter { node: u32, from: u32, edge: T },
    /// All nodes below a node have been left.
    Leave(u32),
}

/// A walk along edges. Each node is entered once in a search.
#[derive(Debug)]
pub(super) struct Walk<'a, T> {
    edges: &'a Lists<T>,
    /// The number of the current search.
    search: u32,
    /// The last search that has reached each node.
    reached_by: Vec<u32>,
    /// The nodes from the start to the current one, and the number of their edges that have been
    /// followed.
    path: Vec<(u32, usize)>,
}

impl<'a, T: Edge> Walk<'a, T> {
    pub(super) fn new(edges: &'a Lists<T>) -> Self {
        Self {
            edges,
            search: 1,
            reached_by: vec![0; edges.count()],
            path: Vec::new(),
        }
    }

    /// Begins another search, which knows no node.
    pub(super) fn restart(&mut self) {
        self.path.clear();
        self.search = self.search.checked_add(1).unwrap_or_else(|| {
            self.reached_by.fill(0);
            1
        });
    }

    /// Enters a node as a start. Returns false if this search has reached it already.
    pub(super) fn begin(&mut self, node: u32) -> bool {
        let before = std::mem::replace(&mut self.reached_by[node as usize], self.search);
        if before != self.search {
            self.path.push((node, 0));
        }
        before != self.search
    }

    /// Goes on to the next step; `None` after the start has been left.
    pub(super) fn step(&mut self) -> Option<Step<T>> {
        loop {
            let (node, followed) = self.path.last_mut()?;
            let from = *node;
            let Some(edge) = self.edges.of(from).get(*followed).copied() else {
                self.path.pop();
                return Some(Step::Leave(from));
            };
            *followed += 1;
            let node = edge.target();
            if self.begin(node) {
                return Some(Step::Enter { node, from, edge });
            }
        }
    }

    /// Returns the nodes that are reachable from a start and not known yet, and the node from which
    /// each was entered.
    pub(super) fn entered(&mut self, start: u32) -> Vec<(u32, Option<u32>)> {
        let mut found = Vec::new();
        if self.begin(start) {
            found.push((start, None));
        }
        while let Some(step) = self.step() {
            if let Step::Enter { node, from, .. } = step {
                found.push((node, Some(from)));
            }
        }
        found
    }
}
