//! The load of processes and containers: the share of each step of time in which their threads run.

use rustc_hash::FxHashMap;

use crate::nodes::{Content, Kind};
use crate::view::View;
use crate::window::Window;

/// The maximum number of steps of a window.
const MAX_STEPS: f64 = 8192.0;

/// The load of a process or container in steps of equal length.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The length of a step in nanoseconds.
    pub(crate) length: f64,
    /// The steps with load, by number from the start of the trace; 255 is that of all CPUs that the
    /// threads can use at once.
    pub(crate) loads: Vec<(u64, u8)>,
}

impl View {
    /// Returns the load of those of the nodes that are processes or containers. The page computes
    /// the same from an export.
    pub(crate) fn activity(&self, nodes: &[u32], window: Window) -> FxHashMap<u32, Steps> {
        let tables = self.trace().tables();
        let (from, to) = (
            window.from.max(0.0),
            window.to.min(self.duration() as f64 + 1.0),
        );
        // Whole nanoseconds, as columns are.
        let length = 2_f64.powi(i32::from(window.level) + 1);
        let length = length.max(((to - from) / MAX_STEPS).ceil());
        // The positions in `nodes` of each process and its containers.
        let mut positions: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (position, node) in nodes.iter().enumerate() {
            for upid in self.processes_of(*node) {
                positions.entry(upid).or_default().push(position);
            }
        }
        let mut sums: Vec<FxHashMap<u64, f64>> = vec![FxHashMap::default(); nodes.len()];
        if positions.is_empty() {
            return FxHashMap::default();
        }
        let mut cpus = 0;
        for of in self.scene().nodes() {
            let Content::Cpu(_) = of.content else {
                continue;
            };
            cpus += 1;
            let Some((lanes, times)) = self.lanes(&of.content) else {
                continue;
            };
            let range = self.absolute(from)..self.absolute(to);
            for row in lanes.rows_within(of.lane, range, times) {
                let upid = tables
                    .thread
                    .upid()
                    .get(tables.sched_slice.utid().get(*row));
                let Some(of) = upid.and_then(|upid| positions.get(&upid)) else {
                    continue;
                };
                let mut at = self.relative(times.start(*row)).max(from);
                let end = self.relative(times.end(*row)).min(to);
                while at < end {
                    let step = (at / length) as u64;
                    let until = ((step + 1) as f64 * length).min(end);
                    for position in of {
                        *sums[*position].entry(step).or_default() += until - at;
                    }
                    at = until;
                }
            }
        }
        let mut all = FxHashMap::default();
        for (node, sums) in nodes.iter().zip(sums) {
            if self.processes_of(*node).next().is_none() {
                continue;
            }
            let full = length * f64::from(self.states_below(*node).min(cpus).max(1));
            let load = |sum: f64| (sum / full * 255.0).round().min(255.0) as u8;
            let mut loads: Vec<(u64, u8)> = sums
                .into_iter()
                .map(|(step, sum)| (step, load(sum)))
                .collect();
            loads.sort_unstable();
            all.insert(*node, Steps { length, loads });
        }
        all
    }

    /// Returns the processes with CPU time that a node is, or that it contains as a container.
    pub(crate) fn processes_of(&self, node: u32) -> impl Iterator<Item = u32> {
        let behind = match self.node(node).map(|of| (of.kind, of.behind)) {
            Some((Kind::Group, behind)) => behind,
            Some((Kind::Process, _)) => node + 1,
            _ => node,
        };
        (node..behind).filter_map(|node| match self.node(node)?.content {
            Content::Activity(upid) => Some(upid),
            _ => None,
        })
    }

    /// Returns the number of threads of a process or container whose states are known.
    fn states_below(&self, node: u32) -> u32 {
        let behind = self.node(node).map_or(0, |of| of.behind);
        let below = (node..behind).filter_map(|node| self.node(node));
        below.filter(|of| of.kind == Kind::States).count() as u32
    }
}
