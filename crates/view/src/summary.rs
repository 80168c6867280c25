//! The happenings of a time, in numbers.

use std::ops::Range;

use ferretto_tables::StringId;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::lanes::Times;
use crate::nodes::{Content, NONE};
use crate::view::View;

/// The most entries of each list.
const MAX_ENTRIES: usize = 1000;

/// Intervals of one name.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    total: i64,
    /// The part of it in which no other interval was within.
    own: i64,
    min: i64,
    max: i64,
}

impl Sum {
    fn add(&mut self, dur: i64) {
        self.min = if self.count == 0 {
            dur
        } else {
            self.min.min(dur)
        };
        self.max = self.max.max(dur);
        self.count += 1;
        self.total = self.total.saturating_add(dur);
        self.own = self.own.saturating_add(dur);
    }
}

#[derive(Debug, Default)]
struct Sums {
    names: FxHashMap<StringId, Sum>,
    states: FxHashMap<StringId, Sum>,
    /// Time on CPUs, by thread: as CPUs tell, and as states of threads do.
    on_cpus: FxHashMap<u32, i64>,
    running: FxHashMap<u32, i64>,
    counters: Vec<Value>,
    left_out: usize,
}

/// Returns the length of what of a row is in a window.
fn within(times: Times<'_>, row: u32, window: &Range<i64>) -> i64 {
    let (start, end) = (times.start(row), times.end(row));
    let length = end.min(window.end).saturating_sub(start.max(window.start));
    length.max(0)
}

impl View {
    /// Returns what happened on these nodes, or everywhere, between two times, as JSON.
    pub fn summary(&self, from: f64, to: f64, nodes: Option<&[u32]>) -> Value {
        let window = self.absolute(from)..self.absolute(to);
        let mut sums = Sums::default();
        for node in self.with_events(nodes) {
            self.sum(node, &window, &mut sums);
        }
        let Sums {
            names,
            states,
            mut on_cpus,
            running,
            counters,
            left_out,
        } = sums;
        for (utid, time) in running {
            let known = on_cpus.entry(utid).or_default();
            *known = (*known).max(time);
        }
        let mut left_out = left_out;
        let names = self.sorted(names, &mut left_out, |name, sum| {
            json!({
                "name": name, "count": sum.count, "total": sum.total, "self": sum.own,
                "min": sum.min, "max": sum.max,
            })
        });
        let states = self.sorted(
            states,
            &mut left_out,
            |name, sum| json!({"name": name, "count": sum.count, "total": sum.total}),
        );
        let mut threads: Vec<(u32, i64)> = on_cpus.into_iter().collect();
        threads.sort_by_key(|(utid, time)| (-*time, *utid));
        left_out += threads.len().saturating_sub(MAX_ENTRIES);
        let threads = threads.into_iter().take(MAX_ENTRIES).map(|(utid, time)| {
            let node = self.thread_node(utid);
            let process = self.node(self.process_of(node)).is_some();
            json!({
                "node": (node != NONE).then_some(node),
                "name": self.title(node),
                "process": process.then(|| self.title(self.process_of(node))),
                "cpu": time,
            })
        });
        json!({
            "names": names, "states": states, "threads": threads.collect::<Vec<_>>(),
            "counters": counters, "left_out": left_out,
        })
    }

    fn sorted(
        &self,
        sums: FxHashMap<StringId, Sum>,
        left_out: &mut usize,
        show: impl Fn(&str, Sum) -> Value,
    ) -> Vec<Value> {
        let mut sums: Vec<(StringId, Sum)> = sums.into_iter().collect();
        sums.sort_by_key(|(name, sum)| (-sum.total, u64::MAX - sum.count, *name));
        *left_out += sums.len().saturating_sub(MAX_ENTRIES);
        let strings = self.trace.strings();
        let first = sums.into_iter().take(MAX_ENTRIES);
        first
            .map(|(name, sum)| show(strings.text(name), sum))
            .collect()
    }

    fn sum(&self, node: u32, window: &Range<i64>, sums: &mut Sums) {
        let tables = self.trace.tables();
        let of = &self.nodes[node as usize];
        if let Content::Counter(_) = of.content {
            return self.sum_counter(node, window, sums);
        }
        let Some((lanes, times)) = self.lanes(&of.content) else {
            return;
        };
        for depth in 0..u32::from(of.depth) {
            for row in lanes.rows_within(of.lane + depth, window.clone(), times) {
                let (row, dur) = (*row, within(times, *row, window));
                match of.content {
                    Content::Cpu(_) => {
                        let utid = tables.sched_slice.utid().get(row);
                        *sums.on_cpus.entry(utid).or_default() += dur;
                    }
                    Content::States(utid) => {
                        let state = tables.thread_state.state().get(row);
                        sums.states.entry(state).or_default().add(dur);
                        if tables.thread_state.ucpu().get(row).is_some()
                            && self.trace.strings().text(state) == "Running"
                        {
                            *sums.running.entry(utid).or_default() += dur;
                        }
                    }
                    // Each of these is on a CPU, too.
                    Content::Activity(_) => {}
                    _ => {
                        let name = self.label(&of.content, row).name;
                        sums.names.entry(name).or_default().add(dur);
                    }
                }
                if let Content::Slices(_) = of.content
                    && let Some(parent) = tables.slice.parent_id().get(row)
                {
                    let name = tables.slice.name().get(parent);
                    let sum = sums.names.entry(name).or_default();
                    sum.own = sum.own.saturating_sub(dur);
                }
            }
        }
    }

    fn sum_counter(&self, node: u32, window: &Range<i64>, sums: &mut Sums) {
        let of = &self.nodes[node as usize];
        let table = &self.trace.tables().counter;
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut area, mut before): (f64, Option<(i64, f64)>) = (0.0, None);
        let mut count = 0_u64;
        self.counters
            .show(of.lane, window.clone(), 0, table, |point| {
                if let Some((since, value)) = before {
                    area += value * (point.time - since.max(window.start)) as f64;
                }
                count += u64::from(point.time >= window.start);
                before = Some((point.time, point.last));
                (min, max) = (min.min(point.min), max.max(point.max));
            });
        let Some((since, last)) = before else {
            return;
        };
        if sums.counters.len() == MAX_ENTRIES {
            sums.left_out += 1;
            return;
        }
        area += last * (window.end - since.max(window.start)) as f64;
        let first = self.counters.rows(of.lane).first();
        let first = first.map_or(window.start, |row| table.ts().get(*row));
        let length = window.end.saturating_sub(first.max(window.start)).max(1);
        let strings = self.trace.strings();
        sums.counters.push(json!({
            "node": node, "name": of.name.text(strings), "unit": strings.text(of.unit),
            "count": count, "min": min, "max": max, "mean": area / length as f64, "last": last,
        }));
    }
}
