//! The positions of the frames of a flamegraph.

use super::tree::Tree;

/// The frames in the order of their rows.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The node of each row.
    pub(super) nodes: Vec<usize>,
    /// The row of the parent of each row.
    pub(super) parents: Vec<Option<usize>>,
    /// The distance from the root, from 1 downwards and from -1 upwards.
    pub(super) depths: Vec<i64>,
    /// The position where each row begins.
    pub(super) starts: Vec<f64>,
}

/// Lays out the nodes with values by the first column of values, level by level. The widest child
/// comes first.
pub(super) fn layout(tree: &Tree) -> Layout {
    let count = tree.parents.len();
    let width = |node: usize| tree.sums[0].cumulative.real(node);
    let has_value = |node: usize| {
        let mut sums = tree.sums.iter();
        sums.any(|sums| sums.cumulative.real(node) != 0.0)
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut roots = [Vec::new(), Vec::new()];
    for node in (0..count).filter(|node| has_value(*node)) {
        match tree.parents[node] {
            Some(parent) => children[parent].push(node),
            None => roots[usize::from(node >= tree.below)].push(node),
        }
    }
    for nodes in children.iter_mut().chain(&mut roots) {
        nodes.sort_by(|a, b| width(*b).total_cmp(&width(*a)));
    }
    let mut layout = Layout::default();
    let add_row = |layout: &mut Layout, nodes: &[usize], parent: Option<usize>| {
        let mut start = parent.map_or(0.0, |parent| layout.starts[parent]);
        for node in nodes {
            let step = if *node < tree.below { 1 } else { -1 };
            layout.nodes.push(*node);
            layout.parents.push(parent);
            let above = parent.map_or(0, |parent| layout.depths[parent]);
            layout.depths.push(above + step);
            layout.starts.push(start);
            start += width(*node);
        }
    };
    for nodes in &roots {
        add_row(&mut layout, nodes, None);
    }
    let mut row = 0;
    while let Some(node) = layout.nodes.get(row) {
        let below = std::mem::take(&mut children[*node]);
        add_row(&mut layout, &below, Some(row));
        row += 1;
    }
    layout
}
