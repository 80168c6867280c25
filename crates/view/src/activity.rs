//! The load of processes and containers: the share of each step of time in which their threads run.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::loads::Loads;
use crate::nodes::{Content, Kind, Node};
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
        let mut add = |upid: u32, mut at: f64, end: f64| {
            let Some(of) = positions.get(&upid) else {
                return;
            };
            while at < end {
                let step = (at / length) as u64;
                let until = ((step + 1) as f64 * length).min(end);
                for position in of {
                    *sums[*position].entry(step).or_default() += until - at;
                }
                at = until;
            }
        };
        match self.summed(length, from, to) {
            None => self.each_run(from, to, &mut add),
            Some(whole) => {
                self.each_run(from, whole.start, &mut add);
                self.each_run(whole.end, to, &mut add);
                for (upid, positions) in &positions {
                    self.loads().of(*upid, |start, sum| {
                        if !whole.contains(&(start as f64)) {
                            return;
                        }
                        let step = (start as f64 / length) as u64;
                        for position in positions {
                            *sums[*position].entry(step).or_default() += sum as f64;
                        }
                    });
                }
            }
        }
        let is_cpu = |of: &&Node| matches!(of.content, Content::Cpu(_));
        let cpus = self.scene().nodes().iter().filter(is_cpu).count() as u32;
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

    /// Returns the part of a window whose steps of this length are sums of those of
    /// [`loads`](Self::loads), if there is one.
    fn summed(&self, length: f64, from: f64, to: f64) -> Option<Range<f64>> {
        let duration = self.duration().max(0);
        let stored = 1_u64 << Loads::shift(duration as u64);
        let is_sum = (length as u64).is_power_of_two() && length as u64 >= stored;
        let stored = stored as f64;
        let start = (from / stored).ceil() * stored;
        // Nothing runs after the end.
        let end = if to < duration as f64 {
            (to / stored).floor() * stored
        } else {
            to
        };
        (is_sum && start < end).then_some(start..end)
    }

    /// Returns the loads of processes, computed on first use.
    pub(crate) fn loads(&self) -> &Loads {
        self.first_picture().loads.get_or_init(|| {
            let duration = self.duration().max(0) as u64;
            let processes = self.trace().tables().process.len() as usize;
            Loads::new(duration, processes, |each| {
                let mut each = |upid, at, end| each(upid, at as u64, end as u64);
                self.each_run(0.0, duration as f64 + 1.0, &mut each);
            })
        })
    }

    /// Calls `each` with the processes that run in a window, and the start and end of each time.
    fn each_run(&self, from: f64, to: f64, each: &mut dyn FnMut(u32, f64, f64)) {
        let tables = self.trace().tables();
        if from >= to {
            return;
        }
        for of in self.scene().nodes() {
            let Content::Cpu(_) = of.content else {
                continue;
            };
            let Some((lanes, times)) = self.lanes(&of.content) else {
                continue;
            };
            let range = self.absolute(from)..self.absolute(to);
            for row in lanes.rows_within(of.lane, range, times).iter() {
                let upid = tables.thread.upid().get(tables.sched_slice.utid().get(row));
                if let Some(upid) = upid {
                    let start = self.relative(times.start(row)).max(from);
                    each(upid, start, self.relative(times.end(row)).min(to));
                }
            }
        }
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
