//! The load of processes: the share of each step of time in which their threads run.

use rustc_hash::FxHashMap;

use crate::nodes::{Content, Kind};
use crate::view::View;
use crate::window::Window;

/// The maximum number of steps of a window.
const MAX_STEPS: f64 = 8192.0;

/// The load of a process in steps of equal length.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The length of a step in nanoseconds.
    pub(crate) length: f64,
    /// The steps with load, by number from the start of the trace; 255 is that of all CPUs that the
    /// threads of the process can use at once.
    pub(crate) loads: Vec<(u64, u8)>,
}

impl View {
    /// Returns the load of those of the nodes that are processes. The page computes the same from
    /// an export.
    pub(crate) fn activity(&self, nodes: &[u32], window: Window) -> FxHashMap<u32, Steps> {
        let tables = self.trace().tables();
        let (from, to) = (
            window.from.max(0.0),
            window.to.min(self.duration() as f64 + 1.0),
        );
        // Whole nanoseconds, as columns are.
        let length = 2_f64.powi(i32::from(window.level) + 1);
        let length = length.max(((to - from) / MAX_STEPS).ceil());
        let mut sums: FxHashMap<u32, FxHashMap<u64, f64>> = FxHashMap::default();
        for node in nodes {
            if let Some(Content::Activity(upid)) = self.node(*node).map(|node| &node.content) {
                sums.insert(*upid, FxHashMap::default());
            }
        }
        if sums.is_empty() {
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
                let Some(sums) = upid.and_then(|upid| sums.get_mut(&upid)) else {
                    continue;
                };
                let mut at = self.relative(times.start(*row)).max(from);
                let end = self.relative(times.end(*row)).min(to);
                while at < end {
                    let step = (at / length) as u64;
                    let until = ((step + 1) as f64 * length).min(end);
                    *sums.entry(step).or_default() += until - at;
                    at = until;
                }
            }
        }
        let mut all = FxHashMap::default();
        for node in nodes {
            let Some(Content::Activity(upid)) = self.node(*node).map(|node| &node.content) else {
                continue;
            };
            let Some(sums) = sums.remove(upid) else {
                continue;
            };
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

    /// Returns the number of threads of a process whose states are known.
    fn states_below(&self, node: u32) -> u32 {
        let behind = self.node(node).map_or(0, |of| of.behind);
        let below = (node..behind).filter_map(|node| self.node(node));
        below.filter(|of| of.kind == Kind::States).count() as u32
    }
}
