//! Aggregation of callstacks as a tree, for flamegraphs.

use std::collections::HashMap;

use super::Profile;
use super::counts::{StackCounts, Value};
use super::function::FunctionId;
use super::label::{By, Label};
use crate::limits::{Budget, entry_bytes};

/// Options of a [`CallTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeOptions {
    /// The labels before the functions.
    pub by: By,
    /// The quantity to count.
    pub value: Value,
    /// True for a tree from the innermost functions to their callers.
    pub inverted: bool,
}

/// The id of a node of a [`CallTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

/// The id of a label of a [`CallTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelId(u32);

/// A node: the callstacks with the same prefix.
#[derive(Debug, Clone)]
pub struct CallNode {
    /// The function, or the process or thread; `None` for the root.
    pub label: Option<LabelId>,
    /// The samples whose callstack ends at this node.
    pub own: u64,
    /// The samples whose callstack contains this node.
    pub total: u64,
    /// The child nodes, in no particular order.
    pub children: Vec<NodeId>,
}

impl CallNode {
    fn new(label: Option<LabelId>) -> Self {
        Self {
            label,
            own: 0,
            total: 0,
            children: Vec::new(),
        }
    }

    fn add_total(&mut self, value: u64) {
        self.total = self.total.saturating_add(value);
    }
}

/// Callstacks aggregated by common prefixes.
#[derive(Debug)]
pub struct CallTree {
    labels: Vec<Label>,
    label_ids: HashMap<Label, LabelId>,
    nodes: Vec<CallNode>,
    edges: HashMap<(NodeId, LabelId), NodeId>,
    budget: Budget,
}

/// The accounted bytes of a node, and of its copy in a picture.
const NODE_BYTES: usize = 2 * size_of::<CallNode>() + 2 * entry_bytes::<(u64, NodeId)>();

impl CallTree {
    /// The root node.
    pub const ROOT: NodeId = NodeId(0);

    /// Aggregates the selected samples of a trace.
    pub fn new(profile: &Profile, counts: &StackCounts, options: &TreeOptions) -> Self {
        let mut tree = Self {
            labels: Vec::new(),
            label_ids: HashMap::new(),
            nodes: vec![CallNode::new(None)],
            edges: HashMap::new(),
            budget: profile.decoder.budget.clone(),
        };
        tree.add(profile, counts, options);
        tree
    }

    /// Adds the selected samples of another trace.
    pub fn add(&mut self, profile: &Profile, counts: &StackCounts, options: &TreeOptions) {
        let is_off_cpu = counts.is_off_cpu(profile);
        let mut functions: HashMap<(FunctionId, bool), LabelId> = HashMap::new();
        let mut path = Vec::new();
        for (key, count) in counts.iter(profile) {
            let value = count.value(options.value);
            if value == 0 {
                continue;
            }
            path.clear();
            for label in profile.task_labels(key, options.by) {
                path.push(self.label_id(label));
            }
            for line in profile.lines(profile.shown_stack(key.stack, is_off_cpu)) {
                let Some(function) = profile.function(line.function) else {
                    continue;
                };
                let known = functions.entry((line.function, line.is_inlined));
                path.push(
                    *known.or_insert_with(|| {
                        self.label_id(Label::function(function, line.is_inlined))
                    }),
                );
            }
            if options.inverted {
                path.reverse();
            }
            self.add_path(&path, value);
        }
    }

    fn label_id(&mut self, label: Label) -> LabelId {
        if let Some(id) = self.label_ids.get(&label) {
            return *id;
        }
        let id = LabelId(self.labels.len() as u32);
        self.labels.push(label.clone());
        self.label_ids.insert(label, id);
        id
    }

    fn add_path(&mut self, path: &[LabelId], value: u64) {
        let mut at = Self::ROOT;
        self.node_mut(at).add_total(value);
        for label in path {
            // Callstacks are cut if the memory limit is reached.
            let Some(child) = self.child(at, *label) else {
                break;
            };
            at = child;
            self.node_mut(at).add_total(value);
        }
        let end = self.node_mut(at);
        end.own = end.own.saturating_add(value);
    }

    fn child(&mut self, parent: NodeId, label: LabelId) -> Option<NodeId> {
        if let Some(id) = self.edges.get(&(parent, label)) {
            return Some(*id);
        }
        if !self.budget.take(NODE_BYTES) {
            return None;
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(CallNode::new(Some(label)));
        self.node_mut(parent).children.push(id);
        self.edges.insert((parent, label), id);
        Some(id)
    }

    fn node_mut(&mut self, id: NodeId) -> &mut CallNode {
        &mut self.nodes[id.0 as usize]
    }

    /// Returns all nodes, parents before children.
    pub fn nodes(&self) -> impl Iterator<Item = &CallNode> {
        self.nodes.iter()
    }

    /// Returns a node of this tree.
    ///
    /// # Panics
    ///
    /// May panic for the id of another tree.
    pub fn node(&self, id: NodeId) -> &CallNode {
        &self.nodes[id.0 as usize]
    }

    /// Returns a label of this tree.
    ///
    /// # Panics
    ///
    /// May panic for the id of another tree.
    pub fn label(&self, id: LabelId) -> &Label {
        &self.labels[id.0 as usize]
    }

    /// Returns the child of `parent` with this label.
    pub fn find(&self, parent: NodeId, label: &Label) -> Option<NodeId> {
        let label = self.label_ids.get(label)?;
        self.edges.get(&(parent, *label)).copied()
    }
}
