//! The boxes of a flamegraph: a tree of callstacks without invisibly small parts.

use std::collections::HashMap;

use ferretto_trace::profile::{CallTree, Label, LabelKind, NodeId};

use super::name::short_name;

/// The largest number of characters of a name.
const MAX_NAME: usize = 180;

/// The kind of a box, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    /// All samples, a program, a process or a thread.
    Task,
    /// A function of the program itself.
    Program,
    /// A function of a shared library.
    Library,
    /// An inlined function.
    Inlined,
    /// A function of the kernel.
    Kernel,
    /// A function compiled at run time.
    Jit,
    /// An address without a name.
    Unknown,
    /// The end of a truncated callstack.
    Truncated,
    /// Merged small boxes.
    Merged,
}

impl Sort {
    fn of(label: &Label) -> Self {
        match label.kind {
            LabelKind::Task => Self::Task,
            LabelKind::User if label.module.contains(".so") => Self::Library,
            LabelKind::User => Self::Program,
            LabelKind::Inlined => Self::Inlined,
            LabelKind::Kernel => Self::Kernel,
            LabelKind::Jit => Self::Jit,
            LabelKind::Unknown => Self::Unknown,
            LabelKind::Truncated => Self::Truncated,
        }
    }
}

/// The text of boxes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) text: String,
    /// The name without generic arguments, for the box.
    pub(super) short: String,
    pub(super) module: String,
    pub(super) sort: Sort,
}

/// An amount, in samples or in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amount {
    /// The samples that end in the function.
    pub(super) own: u64,
    /// The samples that end in the function or in a callee.
    pub(super) total: u64,
}

/// One box.
#[derive(Debug, Clone, Copy)]
pub(super) struct Box {
    /// Its index in [`Picture::names`].
    pub(super) name: usize,
    pub(super) amount: Amount,
    /// The amount in the baseline.
    pub(super) before: Amount,
    /// The number of children, each followed by its own children.
    pub(super) children: usize,
    /// The number of functions in a merged box.
    pub(super) merged: usize,
}

/// All boxes.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) names: Vec<Name>,
    /// The boxes in preorder, the widest child first and merged ones last. The first box is all
    /// samples.
    pub(super) boxes: Vec<Box>,
    /// True if there is a baseline.
    pub(super) has_baseline: bool,
}

/// A box to create.
enum Todo {
    Node(NodeId, Option<NodeId>),
    Merged { total: u64, functions: usize },
}

impl Picture {
    /// Builds the boxes of `tree`, about `limit` at most: the smallest are merged.
    pub(super) fn new(tree: &CallTree, baseline: Option<&CallTree>, limit: usize) -> Self {
        let smallest = smallest(tree, limit);
        let mut names = Names::default();
        let all = names.id(Name {
            text: "all".to_owned(),
            short: "all".to_owned(),
            module: String::new(),
            sort: Sort::Task,
        });
        let merged = names.id(Name {
            text: "…".to_owned(),
            short: "…".to_owned(),
            module: String::new(),
            sort: Sort::Merged,
        });
        let mut boxes = Vec::new();
        let root = baseline.map(|_| CallTree::ROOT);
        let mut todo = vec![Todo::Node(CallTree::ROOT, root)];
        while let Some(next) = todo.pop() {
            let (id, before) = match next {
                Todo::Node(id, before) => (id, before),
                Todo::Merged { total, functions } => {
                    boxes.push(Box {
                        name: merged,
                        amount: Amount { own: 0, total },
                        before: Amount::default(),
                        children: 0,
                        merged: functions,
                    });
                    continue;
                }
            };
            let node = tree.node(id);
            let (mut children, small): (Vec<_>, Vec<_>) = node
                .children
                .iter()
                .partition(|child| tree.node(**child).total >= smallest);
            children.sort_by(|one, other| {
                let total = |id: &NodeId| tree.node(*id).total;
                let label = |id: &NodeId| tree.node(*id).label.map(|label| tree.label(label));
                let by_label = || label(one).cmp(&label(other));
                total(other).cmp(&total(one)).then_with(by_label)
            });
            let amount = |own, total| Amount { own, total };
            let name = match node.label {
                Some(label) => names.label(tree.label(label)),
                None => all,
            };
            boxes.push(Box {
                name,
                amount: amount(node.own, node.total),
                before: baseline
                    .zip(before)
                    .map_or(Amount::default(), |(tree, id)| {
                        amount(tree.node(id).own, tree.node(id).total)
                    }),
                children: children.len() + usize::from(!small.is_empty()),
                merged: 0,
            });
            if !small.is_empty() {
                let totals = small.iter().map(|child| tree.node(*child).total);
                todo.push(Todo::Merged {
                    total: totals.sum(),
                    functions: small.len(),
                });
            }
            for child in children.into_iter().rev() {
                let label = tree.node(child).label.map(|label| tree.label(label));
                let before = baseline.zip(before).zip(label);
                let before = before.and_then(|((tree, id), label)| tree.find(id, label));
                todo.push(Todo::Node(child, before));
            }
        }
        Self {
            names: names.names,
            boxes,
            has_baseline: baseline.is_some(),
        }
    }

    /// Returns the box of all samples.
    pub(super) fn all(&self) -> &Box {
        &self.boxes[0]
    }

    /// Returns the growth of a box's own share since the baseline, from -1 to 1.
    pub(super) fn growth(&self, of: &Box) -> f64 {
        let all = self.all();
        share(of.amount.own, all.amount.total) - share(of.before.own, all.before.total)
    }

    /// Returns the largest change of all boxes, which is never 0.
    pub(super) fn greatest_growth(&self) -> f64 {
        let growths = self.boxes.iter().map(|of| self.growth(of).abs());
        growths.fold(1e-9, f64::max)
    }
}

/// Returns a share of a total, which may be 0.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Returns the smallest total that at most `limit` nodes reach.
fn smallest(tree: &CallTree, limit: usize) -> u64 {
    let mut totals: Vec<u64> = tree.nodes().map(|node| node.total).collect();
    if totals.len() <= limit {
        return 0;
    }
    totals.sort_unstable_by(|one, other| other.cmp(one));
    // All nodes as small as the first excess one are left out.
    totals[limit].saturating_add(1)
}

/// Deduplicated names.
#[derive(Default)]
struct Names {
    names: Vec<Name>,
    ids: HashMap<Name, usize>,
}

impl Names {
    fn label(&mut self, label: &Label) -> usize {
        let printable = |text: &str| -> String {
            let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
            text.take(MAX_NAME).collect()
        };
        self.id(Name {
            text: printable(&label.name),
            short: match label.kind {
                LabelKind::Task => printable(&label.name),
                // The address is more specific than the file.
                LabelKind::Unknown => printable(
                    label
                        .name
                        .strip_prefix(&*label.module)
                        .unwrap_or(&label.name),
                ),
                _ => printable(&short_name(&label.name)),
            },
            module: printable(&label.module),
            sort: Sort::of(label),
        })
    }

    fn id(&mut self, name: Name) -> usize {
        if let Some(id) = self.ids.get(&name) {
            return *id;
        }
        self.names.push(name.clone());
        self.ids.insert(name, self.names.len() - 1);
        self.names.len() - 1
    }
}
