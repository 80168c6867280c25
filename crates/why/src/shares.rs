//! The causes of an interval, added up.

use rustc_hash::FxHashMap;

use crate::explanation::{Cause, Explanation};

/// The maximum number of levels. The causes of deeper waits count for the last one.
const MAX_LEVELS: usize = 8;

/// The time of a cause, and of the causes within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The cause.
    pub cause: Cause,
    /// The thread that it concerns: `thread.id`.
    pub thread: u32,
    /// The time in nanoseconds.
    pub ns: i64,
    /// The number of waits, or of parts of the interval.
    pub count: u64,
    /// The callstacks that it counts for (`stack_profile_callsite.id`) with their times, the
    /// longest first. For a wait, those with which it began.
    pub callstacks: Vec<(u32, i64)>,
    /// The causes within this one, the longest first: for a wait that another thread ended, what
    /// that thread did meanwhile; for a wait for a CPU, the threads that had it; for system calls,
    /// each of them. If there are any,
    /// they add up to its time.
    pub inner: Vec<Self>,
}

/// The shares of an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shares {
    /// The causes, the longest first. They add up to the interval.
    pub causes: Vec<Share>,
    /// The length of the interval in nanoseconds.
    pub ns: i64,
}

#[derive(Debug)]
struct Node {
    cause: Cause,
    thread: u32,
    ns: i64,
    count: u64,
    callstacks: FxHashMap<u32, i64>,
    inner: Vec<usize>,
}

/// The key of a node: the one above it, its cause and its thread.
type Key = (Option<usize>, Cause, u32);

#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    by_key: FxHashMap<Key, usize>,
    /// The nodes of waits for a CPU behind a thread, by the group that they are in and that thread:
    /// most causes in large traces.
    behind: FxHashMap<u64, usize>,
    /// The group of causes that was looked up last: most causes are in the same as the one before.
    last_group: Option<(Key, usize)>,
    roots: Vec<usize>,
}

impl Tree {
    /// Returns the node of a group of causes.
    fn group(&mut self, parent: Option<usize>, group: Cause, thread: u32) -> usize {
        let key = (parent, group, thread);
        if let Some((last, node)) = self.last_group
            && last == key
        {
            return node;
        }
        let node = self.child(parent, group, thread);
        self.last_group = Some((key, node));
        node
    }

    fn child(&mut self, parent: Option<usize>, cause: Cause, thread: u32) -> usize {
        let next = self.nodes.len();
        let node = match (cause, parent) {
            // The group is of the same thread.
            (Cause::Behind(other), Some(group)) => {
                let key = (group as u64) << 32 | u64::from(other);
                *self.behind.entry(key).or_insert(next)
            }
            _ => *self.by_key.entry((parent, cause, thread)).or_insert(next),
        };
        if node == next {
            self.nodes.push(Node {
                cause,
                thread,
                ns: 0,
                count: 0,
                callstacks: FxHashMap::default(),
                inner: Vec::new(),
            });
            match parent {
                Some(parent) => self.nodes[parent].inner.push(node),
                None => self.roots.push(node),
            }
        }
        node
    }

    fn shares(&self, nodes: &[usize]) -> Vec<Share> {
        let mut shares: Vec<Share> = nodes
            .iter()
            .map(|node| {
                let node = &self.nodes[*node];
                let mut callstacks: Vec<_> = node.callstacks.clone().into_iter().collect();
                callstacks.sort_unstable_by_key(|(callsite, ns)| (-ns, *callsite));
                let mut inner = self.shares(&node.inner);
                // The time for which no cause within it is known, as that of a thread whose CPU
                // the trace does not tell.
                let rest = node.ns - inner.iter().map(|share| share.ns).sum::<i64>();
                if rest > 0 && !inner.is_empty() {
                    inner.push(Share {
                        cause: node.cause,
                        thread: node.thread,
                        ns: rest,
                        count: node
                            .count
                            .saturating_sub(inner.iter().map(|share| share.count).sum()),
                        callstacks: Vec::new(),
                        inner: Vec::new(),
                    });
                    inner.sort_by_key(order);
                }
                Share {
                    cause: node.cause,
                    thread: node.thread,
                    ns: node.ns,
                    count: node.count,
                    callstacks,
                    inner,
                }
            })
            .collect();
        shares.sort_by_key(order);
        shares
    }
}

/// Returns the sort key of a share: the longest is the first.
fn order(share: &Share) -> (i64, Cause, u32) {
    (-share.ns, share.cause, share.thread)
}

/// Returns the cause that a cause is within.
fn group(cause: Cause) -> Option<Cause> {
    match cause {
        Cause::Behind(_) | Cause::Wakeup | Cause::Idle(_) => Some(Cause::Cpu),
        Cause::Call(_) | Cause::Entry => Some(Cause::Calls),
        _ => None,
    }
}

impl Shares {
    /// Adds up the causes of intervals.
    pub fn new<'a>(explanations: impl IntoIterator<Item = &'a Explanation>) -> Self {
        let mut tree = Tree::default();
        let mut total = 0_i64;
        for explanation in explanations {
            // The node of each wait.
            let mut nodes: Vec<usize> = Vec::with_capacity(explanation.waits.len());
            let mut levels: Vec<usize> = Vec::with_capacity(explanation.waits.len());
            for wait in &explanation.waits {
                let parent = wait.wait.parent.map(|parent| parent as usize);
                let level = parent.map_or(0, |parent| levels[parent] + 1);
                let above = parent.map(|parent| nodes[parent]);
                let node = match above {
                    Some(above) if level >= MAX_LEVELS => above,
                    _ => tree.child(above, wait.cause(), wait.wait.thread),
                };
                let time = wait.wait.end - wait.wait.start;
                if level < MAX_LEVELS {
                    tree.nodes[node].count += 1;
                    if let Some(callsite) = wait.callsite {
                        *tree.nodes[node].callstacks.entry(callsite).or_default() += time;
                    }
                }
                nodes.push(node);
                levels.push(level);
            }
            for piece in &explanation.pieces {
                let time = piece.end - piece.start;
                total = total.saturating_add(time);
                let mut above = piece.wait.map(|wait| wait as usize);
                // Waits below the last level have no node of their own.
                let is_wait = above.is_some_and(|at| {
                    let wait = &explanation.waits[at];
                    let is_it = (wait.wait.thread, wait.cause()) == (piece.thread, piece.cause);
                    is_it && levels[at] < MAX_LEVELS
                });
                if !is_wait {
                    let mut node = above.map(|wait| nodes[wait]);
                    if let Some(group) = group(piece.cause) {
                        let group = tree.group(node, group, piece.thread);
                        tree.nodes[group].ns += time;
                        tree.nodes[group].count += 1;
                        node = Some(group);
                    }
                    let node = tree.child(node, piece.cause, piece.thread);
                    let node = &mut tree.nodes[node];
                    node.ns += time;
                    node.count += 1;
                    if let Some(callsite) = piece.callsite {
                        *node.callstacks.entry(callsite).or_default() += time;
                    }
                }
                let mut added = None;
                while let Some(wait) = above {
                    // Waits below the last level share a node.
                    if added != Some(nodes[wait]) {
                        tree.nodes[nodes[wait]].ns += time;
                        added = Some(nodes[wait]);
                    }
                    above = explanation.waits[wait].wait.parent.map(|it| it as usize);
                }
            }
        }
        Self {
            causes: tree.shares(&tree.roots),
            ns: total,
        }
    }
}
