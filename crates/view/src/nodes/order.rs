//! The order of nodes.

use ferretto_tables::StringPool;

use super::{NONE, Node};

/// The order of siblings of different classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Machine,
    /// A disk, or a heap in its process.
    Subject,
    Cpus,
    Cpu,
    States,
    OwnSlices,
    Slices,
    Samples,
    Counter,
    /// A process of the recorded command.
    OwnProcess,
    ProcessWithSlices,
    Process,
    Thread,
    Log,
    Counters,
}

/// A node before its position is known.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) parent: u32,
    pub(super) class: Class,
    /// The order among siblings of the same class, ascending.
    pub(super) rank: i64,
    pub(super) node: Node,
}

/// Returns nodes in the order of the page, and the position of each draft.
pub(super) fn flatten(drafts: Vec<Draft>, strings: &StringPool) -> (Vec<Node>, Vec<u32>) {
    let text = |draft: u32| drafts[draft as usize].node.name.text(strings);
    let mut order: Vec<u32> = (0..drafts.len() as u32).collect();
    // Siblings become neighbours. Nodes without parent come last.
    order.sort_by(|one, other| {
        let (a, b) = (&drafts[*one as usize], &drafts[*other as usize]);
        let plain = (a.parent, a.class, a.rank).cmp(&(b.parent, b.class, b.rank));
        plain
            .then_with(|| text(*one).cmp(text(*other)))
            .then(a.node.number.cmp(&b.node.number))
            .then(one.cmp(other))
    });
    let below: Vec<(usize, usize)> = {
        let mut below = vec![(0, 0); drafts.len() + 1];
        let mut at = 0;
        while at < order.len() {
            let parent = drafts[order[at] as usize].parent;
            let end = at
                + order[at..]
                    .iter()
                    .take_while(|draft| drafts[**draft as usize].parent == parent)
                    .count();
            let group = if parent == NONE {
                drafts.len()
            } else {
                parent as usize
            };
            below[group] = (at, end);
            at = end;
        }
        below
    };
    let mut nodes: Vec<Node> = Vec::with_capacity(drafts.len());
    let mut indices = vec![NONE; drafts.len()];
    // Ranges of siblings that are not yet added, and their parent.
    let mut stack = vec![(below[drafts.len()], NONE)];
    while let Some(((at, end), parent)) = stack.last_mut() {
        let (parent, position) = (*parent, *at);
        if position == *end {
            let behind = nodes.len() as u32;
            if let Some(node) = nodes.get_mut(parent as usize) {
                node.behind = behind;
            }
            stack.pop();
            continue;
        }
        *at += 1;
        let draft = order[position];
        let mut node = drafts[draft as usize].node.clone();
        node.parent = parent;
        indices[draft as usize] = nodes.len() as u32;
        nodes.push(node);
        stack.push((below[draft as usize], indices[draft as usize]));
    }
    (nodes, indices)
}
