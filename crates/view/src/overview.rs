//! The load of the whole trace in a few hundred steps.

use crate::nodes::{Kind, Node};
use crate::view::View;

const STEPS: usize = 800;
/// The maximum number of nodes in the overview.
const MAX_NODES: usize = 64;

impl View {
    /// Returns the load of the whole trace in equal steps, from 0 to 255: the mean load of its
    /// CPUs, or the number of events. Empty if the trace has no duration.
    pub(crate) fn overview(&self) -> Vec<u8> {
        let step = self.duration() as f64 / STEPS as f64;
        if step <= 0.0 {
            return Vec::new();
        }
        let is_cpu = |node: &&Node| node.kind == Kind::Cpu && node.rows > 0;
        let cpus: Vec<&Node> = self
            .scene()
            .nodes()
            .iter()
            .filter(is_cpu)
            .take(MAX_NODES)
            .collect();
        let mut sums = vec![0.0_f64; STEPS];
        if !cpus.is_empty() {
            self.add_load(&cpus, step, &mut sums);
            let all = cpus.len() as f64;
            return sums.iter().map(|sum| level(sum / all)).collect();
        }
        let is_counted = |node: &&Node| {
            let is_other = matches!(node.kind, Kind::Counter | Kind::States);
            !is_other && node.rows > 0
        };
        let mut nodes: Vec<&Node> = self.scene().nodes().iter().filter(is_counted).collect();
        nodes.sort_by_key(|node| std::cmp::Reverse(node.rows));
        nodes.truncate(MAX_NODES);
        self.add_events(&nodes, step, &mut sums);
        let most = sums.iter().copied().fold(1.0, f64::max);
        sums.iter().map(|sum| level((sum / most).sqrt())).collect()
    }

    /// Adds the share of each step in which a thread ran.
    fn add_load(&self, nodes: &[&Node], step: f64, sums: &mut [f64]) {
        self.show_all(nodes, step, |shown| {
            let (start, end) = (self.relative(shown.start), self.relative(shown.end));
            let share = match shown.count {
                1 => 1.0,
                _ => f64::from(shown.load) / 255.0,
            };
            let first = (start / step).max(0.0) as usize;
            for (at, sum) in sums.iter_mut().enumerate().skip(first) {
                let (from, to) = (at as f64 * step, (at + 1) as f64 * step);
                if from >= end {
                    break;
                }
                *sum += (end.min(to) - start.max(from)).max(0.0) / step * share;
            }
        });
    }

    /// Adds the number of events that start in each step.
    fn add_events(&self, nodes: &[&Node], step: f64, sums: &mut [f64]) {
        self.show_all(nodes, step, |shown| {
            let at = (self.relative(shown.start) / step).max(0.0) as usize;
            sums[at.min(STEPS - 1)] += f64::from(shown.count);
        });
    }

    fn show_all(&self, nodes: &[&Node], step: f64, mut each: impl FnMut(crate::lanes::Shown)) {
        let coarseness = step.log2().ceil().clamp(0.0, 62.0) as u8;
        for node in nodes {
            let Some((lanes, times)) = self.lanes(&node.content) else {
                continue;
            };
            for lane in node.lane..node.lane + u32::from(node.depth) {
                let window = self.bounds().start..self.bounds().end.saturating_add(1);
                lanes.show(lane, window, coarseness, times, &mut each);
            }
        }
    }
}

fn level(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}
