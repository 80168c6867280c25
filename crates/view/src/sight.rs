//! The rows that a page shows first. Follows the order and the open groups of
//! `viewer/src/layout.ts`, and the heights of `viewer/src/lanes.ts`, so that the page contains the
//! data of its first picture.

use ferretto_tables::StringPool;

use crate::nodes::{Kind, NONE, Node};

/// The number of nodes up to which all groups are open.
const OPEN_ALL: usize = 90;
/// The number of rows up to which further groups are opened.
const OPEN_ROWS: usize = 60;
/// The last of the ranks of siblings.
const LAST: u8 = 6;
/// The depth of slices above which a track is drawn with stripes.
const DEEP: u16 = 8;
const DEEP_FULL: u16 = 6;
const MAX_STRIPES: u16 = 20;
const STRIPE: u32 = 3;
/// The height of a slice in pixels.
const UNIT: u32 = 18;

/// Returns the nodes that are drawn in the first rows, up to a height in pixels, from top to
/// bottom.
pub(crate) fn first(nodes: &[Node], strings: &StringPool, height: u32) -> Vec<u32> {
    let mut sight = Sight::new(nodes, strings);
    sight.open_some();
    let mut drawn = Vec::new();
    let mut top = 0;
    let mut rest: Vec<u32> = sight.roots.iter().rev().copied().collect();
    while let Some(node) = rest.pop() {
        let at = node as usize;
        if !sight.in_row[at] {
            if top >= height {
                break;
            }
            top += sight.height(node);
            sight.lanes(node, &mut drawn);
        }
        // A thread in the row of its process has rows for the rest of its tracks.
        let is_passed = sight.in_row[at] && nodes[at].kind == Kind::Thread;
        if is_passed || sight.is_open[at] && !sight.in_row[at] {
            rest.extend(sight.below[at].iter().rev());
        }
    }
    drawn
}

struct Sight<'a> {
    nodes: &'a [Node],
    strings: &'a StringPool,
    roots: Vec<u32>,
    /// The children of each node in the order of their rows.
    below: Vec<Vec<u32>>,
    /// The number of rows of each node and its descendants.
    weight: Vec<u64>,
    is_open: Vec<bool>,
    /// True for nodes that are drawn in the row of another one.
    in_row: Vec<bool>,
    /// True for groups of processes.
    is_grouped: Vec<bool>,
    /// True for processes that have counters, but no events.
    is_quiet: Vec<bool>,
    /// The only thread of a process, which is drawn in the row of the process.
    only: Vec<u32>,
}

impl<'a> Sight<'a> {
    fn new(nodes: &'a [Node], strings: &'a StringPool) -> Self {
        let count = nodes.len();
        let mut this = Self {
            nodes,
            strings,
            roots: Vec::new(),
            below: vec![Vec::new(); count],
            weight: nodes.iter().map(|node| u64::from(node.rows)).collect(),
            is_open: vec![false; count],
            in_row: vec![false; count],
            is_grouped: vec![false; count],
            is_quiet: vec![false; count],
            only: vec![NONE; count],
        };
        let ranks = this.ranks();
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by_key(|node| ranks[*node as usize]);
        for node in order {
            match this.below.get_mut(nodes[node as usize].parent as usize) {
                Some(siblings) => siblings.push(node),
                None => this.roots.push(node),
            }
        }
        this.share_rows();
        this
    }

    /// Computes weights and groups. Returns the rank of each node among its siblings.
    fn ranks(&mut self) -> Vec<u8> {
        let nodes = self.nodes;
        let is_counter = |node: &Node| node.kind == Kind::Counter;
        let mut events: Vec<u64> = self.weight.clone();
        let mut has_cpus = vec![false; nodes.len()];
        let mut has_counters = vec![false; nodes.len()];
        for (at, node) in nodes.iter().enumerate().rev() {
            if is_counter(node) {
                events[at] = 0;
            }
            let above = node.parent as usize;
            let Some(parent) = nodes.get(above) else {
                continue;
            };
            self.weight[above] += self.weight[at];
            events[above] += events[at];
            has_cpus[above] |= node.kind == Kind::Cpu;
            if parent.kind == Kind::Group {
                self.is_grouped[above] |= node.kind == Kind::Process || self.is_grouped[at];
                has_counters[above] |= is_counter(node);
            }
        }
        let mut is_quiet_last = nodes.iter().any(|node| node.is_subject);
        for (at, node) in nodes.iter().enumerate() {
            if node.kind == Kind::Process {
                self.is_quiet[at] = events[at] == 0 && self.weight[at] > 0;
                is_quiet_last |= events[at] > 0;
            }
        }
        let rank = |(at, node): (usize, &Node)| match node.kind {
            _ if is_quiet_last && self.is_quiet[at] => LAST,
            _ if node.is_subject => 0,
            Kind::Machine => 0,
            _ if has_cpus[at] => 1,
            _ if has_counters[at] => 5,
            _ if self.is_grouped[at] => 2,
            Kind::Heap => 0,
            Kind::Cpu => 1,
            Kind::Process | Kind::Thread => 2,
            Kind::Group | Kind::Slices | Kind::Values | Kind::States | Kind::Samples => 3,
            Kind::Log => 4,
            Kind::Counter => 5,
        };
        nodes.iter().enumerate().map(rank).collect()
    }

    /// Finds the nodes that are drawn in the row of a thread, or of a process with one thread.
    fn share_rows(&mut self) {
        for (at, node) in self.nodes.iter().enumerate() {
            if node.kind == Kind::Thread {
                for lane in self.thread_lanes(at as u32) {
                    self.in_row[lane as usize] = true;
                }
                for child in &self.below[at] {
                    let kind = self.nodes[*child as usize].kind;
                    self.in_row[*child as usize] |= matches!(kind, Kind::States | Kind::Samples);
                }
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if node.kind != Kind::Process {
                continue;
            }
            let is_thread = |child: &&u32| self.nodes[**child as usize].kind == Kind::Thread;
            let mut threads = self.below[at].iter().filter(is_thread);
            if let (Some(thread), None) = (threads.next(), threads.next())
                && !self.thread_lanes(*thread).is_empty()
            {
                self.only[at] = *thread;
                self.in_row[*thread as usize] = true;
            }
        }
    }

    /// Returns the nodes that are drawn in the row of a thread: states, samples, and the first
    /// track of slices.
    fn thread_lanes(&self, thread: u32) -> Vec<u32> {
        let mut lanes = Vec::new();
        let mut has_slices = false;
        for child in &self.below[thread as usize] {
            let node = &self.nodes[*child as usize];
            let is_lane = match node.kind {
                Kind::States | Kind::Samples => node.rows > 0,
                Kind::Slices => !has_slices && self.below[*child as usize].is_empty(),
                _ => false,
            };
            has_slices |= is_lane && node.kind == Kind::Slices;
            if is_lane {
                lanes.push(*child);
            }
        }
        lanes
    }

    fn is_closed(&self, node: u32) -> bool {
        self.is_quiet[node as usize] || self.is_group_of_counters(node) || self.is_plain(node)
    }

    fn is_group_of_counters(&self, node: u32) -> bool {
        let first = self.below[node as usize].first();
        self.nodes[node as usize].kind == Kind::Group
            && first.is_some_and(|first| self.nodes[*first as usize].kind == Kind::Counter)
    }

    /// Returns true if the row of a process shows all of it except counters.
    fn is_plain(&self, node: u32) -> bool {
        let thread = self.only[node as usize];
        if thread == NONE {
            return false;
        }
        let is_shown = |child: &u32| {
            let at = *child as usize;
            self.in_row[at] && self.nodes[at].kind != Kind::Slices
        };
        let is_rest = |child: &u32| *child == thread || self.is_group_of_counters(*child);
        self.below[thread as usize].iter().all(is_shown)
            && self.below[node as usize].iter().all(is_rest)
    }

    /// Opens groups level by level, CPUs and the busiest nodes first, until there are enough rows.
    fn open_some(&mut self) {
        if self.nodes.len() <= OPEN_ALL {
            for node in 0..self.nodes.len() as u32 {
                self.is_open[node as usize] = !self.is_closed(node);
            }
            return;
        }
        let mut rows = 0;
        let mut level = self.roots.clone();
        while !level.is_empty() {
            level.retain(|node| {
                let kind = self.nodes[*node as usize].kind;
                matches!(
                    kind,
                    Kind::Machine | Kind::Process | Kind::Thread | Kind::Group
                ) && !self.below[*node as usize].is_empty()
                    && !self.is_closed(*node)
            });
            level.sort_by_key(|node| {
                let first = self.below[*node as usize][0];
                let is_cpu = self.nodes[first as usize].kind == Kind::Cpu;
                std::cmp::Reverse((is_cpu, self.weight[*node as usize]))
            });
            let is_single = level.len() == 1;
            let mut deeper = Vec::new();
            for node in level {
                let children = self.below[node as usize].iter();
                let children = children.filter(|child| !self.in_row[**child as usize]);
                let must = is_single || self.nodes[node as usize].kind == Kind::Machine;
                if !must {
                    let count = children.clone().count();
                    if rows + count > OPEN_ROWS {
                        continue;
                    }
                    rows += count;
                }
                deeper.extend(children.copied());
                self.is_open[node as usize] = true;
            }
            level = deeper;
        }
    }

    /// Returns the memory of a process, or else its first counter.
    fn counter_of(&self, node: u32) -> Option<u32> {
        let mut found = None;
        for child in &self.below[node as usize] {
            let counter = match self.nodes[*child as usize].kind {
                Kind::Counter => Some(*child),
                _ => self.counter_of(*child),
            };
            let is_memory = |of: u32| self.nodes[of as usize].name.text(self.strings) == "mem.rss";
            if found.is_none() || counter.is_some_and(is_memory) {
                found = counter;
            }
        }
        found
    }

    /// Adds the nodes that are drawn in a row.
    fn lanes(&self, node: u32, drawn: &mut Vec<u32>) {
        let at = node as usize;
        match self.nodes[at].kind {
            Kind::Thread => drawn.extend(self.thread_lanes(node)),
            Kind::Process if self.only[at] != NONE => {
                drawn.extend(self.thread_lanes(self.only[at]));
            }
            Kind::Process if self.is_quiet[at] => drawn.extend(self.counter_of(node)),
            Kind::Machine => {}
            Kind::Group if !self.is_grouped[at] => {}
            _ => drawn.push(node),
        }
    }

    /// Returns the least height of a row.
    fn height(&self, node: u32) -> u32 {
        let mut lanes = Vec::new();
        self.lanes(node, &mut lanes);
        let lane = |lane: u32| {
            let Node { kind, depth, .. } = self.nodes[lane as usize];
            match kind {
                Kind::Slices if depth > 1 && !self.is_open[node as usize] && lane != node => {
                    u32::from(depth.min(DEEP_FULL + MAX_STRIPES)) * STRIPE
                }
                Kind::Slices if depth > DEEP => {
                    let stripes = (depth - DEEP_FULL).min(MAX_STRIPES);
                    u32::from(DEEP_FULL) * UNIT + u32::from(stripes) * STRIPE
                }
                Kind::Slices => u32::from(depth.max(1)) * UNIT,
                Kind::States | Kind::Samples | Kind::Heap => UNIT / 2,
                _ => UNIT,
            }
        };
        lanes.into_iter().map(lane).sum::<u32>().max(UNIT + 4)
    }
}
