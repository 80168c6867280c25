//! Trees of callstacks or objects with counts.

use std::collections::HashMap;
use std::sync::Arc;

use ferretto_tables::{StringId, Trace};

/// The counts of a node: number, bytes, and the number and bytes without frees.
pub(super) type Counts = [i64; 4];

/// A function with a path of callers, or a class of objects.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: Option<usize>,
    pub(super) depth: i64,
    pub(super) name: Name,
    pub(super) map: StringId,
    pub(super) source: StringId,
    pub(super) line: Option<i64>,
    pub(super) own: Counts,
    pub(super) all: Counts,
}

/// The name of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// A text of the trace.
    Known(StringId),
    /// Another text.
    Made(Arc<str>),
}

/// The tree. Callstacks with the same names share nodes.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, Name, StringId), usize>,
    /// The nodes of the callsites that were added.
    callsites: HashMap<u32, usize>,
}

impl Tree {
    /// Returns the nodes. Each comes after its parent.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the node of a callsite. Adds it and its callers if necessary.
    pub(super) fn node(&mut self, trace: &Trace, callsite: u32) -> Option<usize> {
        let sites = &trace.tables().stack_profile_callsite;
        let mut path = Vec::new();
        let mut at = Some(callsite).filter(|site| *site < sites.len());
        let mut parent = None;
        while let Some(site) = at {
            if let Some(node) = self.callsites.get(&site) {
                parent = Some(*node);
                break;
            }
            path.push(site);
            at = sites.parent_id().get(site).filter(|above| *above < site);
        }
        for site in path.into_iter().rev() {
            for function in functions(trace, sites.frame_id().get(site)) {
                parent = Some(self.child(parent, function));
            }
            if let Some(node) = parent {
                self.callsites.insert(site, node);
            }
        }
        parent
    }

    fn child(&mut self, parent: Option<usize>, function: Function) -> usize {
        let (source, line) = (function.source, function.line);
        self.named(
            parent,
            Name::Known(function.name),
            function.map,
            source,
            line,
        )
    }

    fn named(
        &mut self,
        parent: Option<usize>,
        name: Name,
        map: StringId,
        source: StringId,
        line: Option<i64>,
    ) -> usize {
        let depth = parent.map_or(0, |parent| self.nodes[parent].depth + 1);
        *self
            .children
            .entry((parent, name.clone(), map))
            .or_insert_with(|| {
                self.nodes.push(Node {
                    parent,
                    depth,
                    name,
                    map,
                    source,
                    line,
                    own: [0; 4],
                    all: [0; 4],
                });
                self.nodes.len() - 1
            })
    }

    /// Returns the node with a text below another one. Adds it if it is new.
    pub(super) fn labelled(&mut self, parent: Option<usize>, text: &str) -> usize {
        let name = Name::Made(text.into());
        self.named(parent, name, StringId::NULL, StringId::NULL, None)
    }

    /// Adds to the counts of a node.
    pub(super) fn count(&mut self, node: usize, counts: Counts) {
        for (own, add) in self.nodes[node].own.iter_mut().zip(counts) {
            *own = own.saturating_add(add);
        }
    }

    /// Keeps the nodes with this text in their names, and those above and below them.
    pub(super) fn focus(&mut self, trace: &Trace, text: &str) {
        let wanted = text.to_ascii_lowercase();
        // Nodes come after their parents.
        let mut is_below = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let name = node.name.text(trace).unwrap_or_default();
            is_below[at] = name.to_ascii_lowercase().contains(&wanted)
                || node.parent.is_some_and(|parent| is_below[parent]);
        }
        let mut is_kept = is_below;
        for at in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[at].parent {
                is_kept[parent] |= is_kept[at];
            }
        }
        let mut positions = vec![0; self.nodes.len()];
        let mut kept: Vec<Node> = Vec::new();
        for (at, mut node) in std::mem::take(&mut self.nodes).into_iter().enumerate() {
            if is_kept[at] {
                node.parent = node.parent.map(|parent| positions[parent]);
                positions[at] = kept.len();
                kept.push(node);
            }
        }
        self.nodes = kept;
    }

    /// Adds the counts of each node to all its callers.
    pub(super) fn sum_up(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            for kind in 0..4 {
                let node = &mut self.nodes[index];
                node.all[kind] = node.all[kind].saturating_add(node.own[kind]);
            }
            let all = self.nodes[index].all;
            if let Some(parent) = self.nodes[index].parent {
                for (sum, add) in self.nodes[parent].all.iter_mut().zip(all) {
                    *sum = sum.saturating_add(add);
                }
            }
        }
    }
}

impl Name {
    pub(super) fn text<'a>(&'a self, trace: &'a Trace) -> Option<&'a str> {
        match self {
            Self::Known(id) => trace.strings().get(*id),
            Self::Made(text) => Some(text),
        }
    }
}

/// A function of a frame.
struct Function {
    name: StringId,
    map: StringId,
    source: StringId,
    line: Option<i64>,
}

/// Returns the functions of a frame, outermost first. Inlined functions share a frame.
fn functions(trace: &Trace, frame: u32) -> Vec<Function> {
    let tables = trace.tables();
    let frames = &tables.stack_profile_frame;
    let map = tables
        .stack_profile_mapping
        .name()
        .get(frames.mapping().get(frame));
    let symbols = &tables.stack_profile_symbol;
    let set = frames.symbol_set_id().get(frame);
    let mut list: Vec<Function> = Vec::new();
    if let Some(set) = set {
        // The rows of a set are consecutive, and the id of the set is the first row.
        let rows = (set..symbols.len()).take_while(|row| symbols.symbol_set_id().get(*row) == set);
        list.extend(rows.map(|row| Function {
            name: symbols.name().get(row),
            map,
            source: symbols.source_file().get(row),
            line: symbols.line_number().get(row).map(i64::from),
        }));
        list.reverse();
    }
    if list.is_empty() {
        list.push(Function {
            name: frames
                .deobfuscated_name()
                .get(frame)
                .or(frames.name().get(frame)),
            map,
            source: StringId::NULL,
            line: None,
        });
    }
    list
}
