//! Statistics of a time range.

use std::num::NonZero;
use std::ops::Range;
use std::thread;

use ferretto_tables::StringId;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::lanes::Times;
use crate::nodes::{Content, NONE};
use crate::parallel;
use crate::view::View;

/// The number of rows from which several threads are used.
const MANY: usize = 1 << 17;
/// The maximum number of entries of each list.
const MAX_ENTRIES: usize = 1000;

/// The intervals with one name.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    total: i64,
    /// The time without that of contained intervals.
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

    fn merge(&mut self, other: Self) {
        if other.count > 0 {
            self.min = if self.count == 0 {
                other.min
            } else {
                self.min.min(other.min)
            };
            self.max = self.max.max(other.max);
        }
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.own = self.own.saturating_add(other.own);
    }
}

/// Sums by name.
#[derive(Debug, Default)]
struct Named {
    /// The index of the sum of each name, by number; `NONE` for unused names.
    positions: Vec<u32>,
    sums: Vec<(StringId, Sum)>,
}

impl Named {
    #[inline]
    fn of(&mut self, name: StringId) -> &mut Sum {
        let raw = name.raw() as usize;
        let position = match self.positions.get(raw) {
            Some(position) if *position != NONE => *position,
            _ => self.add(name),
        };
        &mut self.sums[position as usize].1
    }

    fn add(&mut self, name: StringId) -> u32 {
        let raw = name.raw() as usize;
        if self.positions.len() <= raw {
            self.positions.resize(raw + 1, NONE);
        }
        self.positions[raw] = self.sums.len() as u32;
        self.sums.push((name, Sum::default()));
        self.positions[raw]
    }

    fn merge(&mut self, other: Self) {
        for (name, sum) in other.sums {
            self.of(name).merge(sum);
        }
    }

    /// Adds the sums of names that have none yet.
    fn merge_new(&mut self, other: Self) {
        for (name, sum) in other.sums {
            let position = self.positions.get(name.raw() as usize);
            if position.is_none_or(|position| *position == NONE) {
                self.of(name).merge(sum);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Sums {
    names: Named,
    /// Kernel events, some of which are also slices with the same name.
    events: Named,
    states: Named,
    /// CPU time by thread, from CPU slices and from states of threads.
    on_cpus: FxHashMap<u32, i64>,
    running: FxHashMap<u32, i64>,
    counters: Vec<Value>,
    left_out: usize,
}

impl Sums {
    /// Adds the sums of other nodes.
    fn merge(&mut self, other: Self) {
        self.names.merge(other.names);
        self.events.merge(other.events);
        self.states.merge(other.states);
        for (utid, time) in other.on_cpus {
            *self.on_cpus.entry(utid).or_default() += time;
        }
        for (utid, time) in other.running {
            *self.running.entry(utid).or_default() += time;
        }
        let free = MAX_ENTRIES - self.counters.len();
        self.left_out += other.left_out + other.counters.len().saturating_sub(free);
        self.counters.extend(other.counters.into_iter().take(free));
    }
}

/// Returns the duration of a row within a window.
pub(crate) fn within(times: Times<'_>, row: u32, window: &Range<i64>) -> i64 {
    let (start, end) = (times.start(row), times.end(row));
    let length = end.min(window.end).saturating_sub(start.max(window.start));
    length.max(0)
}

impl View {
    /// Returns the statistics of these or all nodes between two times, as JSON.
    pub fn summary(&self, from: f64, to: f64, nodes: Option<&[u32]>) -> Value {
        let window = self.absolute(from)..self.absolute(to);
        let nodes = self.with_events(nodes);
        let rows: usize = nodes
            .iter()
            .map(|node| self.scene().nodes()[*node as usize].rows as usize)
            .sum();
        let threads = if rows < MANY {
            1
        } else {
            thread::available_parallelism().map_or(1, NonZero::get)
        };
        let parts: Vec<&[u32]> = nodes
            .chunks(nodes.len().div_ceil(8 * threads).max(1))
            .collect();
        let parts = parallel::map(&parts, threads, |part| {
            let mut sums = Sums::default();
            for node in *part {
                self.sum(*node, &window, &mut sums);
            }
            sums
        });
        let mut all = Sums::default();
        parts.into_iter().for_each(|part| all.merge(part));
        let Sums {
            mut names,
            events,
            states,
            mut on_cpus,
            running,
            counters,
            left_out,
        } = all;
        names.merge_new(events);
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
            let node = self.scene().thread(utid);
            let process = self.node(self.process_of(node)).is_some();
            json!({
                "node": (node != NONE).then_some(node),
                "name": self.title(node),
                "process": process.then(|| self.title(self.process_of(node))),
                "cpu": time,
            })
        });
        let flows = self.flow_sums(&window, &nodes, &mut left_out);
        json!({
            "names": names, "states": states, "threads": threads.collect::<Vec<_>>(),
            "counters": counters, "flows": flows, "left_out": left_out,
        })
    }

    fn sorted(
        &self,
        named: Named,
        left_out: &mut usize,
        show: impl Fn(&str, Sum) -> Value,
    ) -> Vec<Value> {
        let mut sums = named.sums;
        sums.sort_by_key(|(name, sum)| (-sum.total, u64::MAX - sum.count, *name));
        *left_out += sums.len().saturating_sub(MAX_ENTRIES);
        let strings = self.trace().strings();
        let first = sums.into_iter().take(MAX_ENTRIES);
        first
            .map(|(name, sum)| show(strings.text(name), sum))
            .collect()
    }

    fn sum(&self, node: u32, window: &Range<i64>, sums: &mut Sums) {
        let tables = self.trace().tables();
        let of = &self.scene().nodes()[node as usize];
        if let Content::Counter(_) = of.content {
            return self.sum_counter(node, window, sums);
        }
        let Some((lanes, times)) = self.lanes(&of.content) else {
            return;
        };
        for depth in 0..u32::from(of.depth) {
            for row in lanes
                .rows_within(of.lane + depth, window.clone(), times)
                .iter()
            {
                let dur = within(times, row, window);
                match of.content {
                    Content::Cpu(_) => {
                        let utid = tables.sched_slice.utid().get(row);
                        *sums.on_cpus.entry(utid).or_default() += dur;
                    }
                    Content::States(utid) => {
                        let state = tables.thread_state.state().get(row);
                        sums.states.of(state).add(dur);
                        if tables.thread_state.ucpu().get(row).is_some()
                            && self.trace().strings().text(state) == "Running"
                        {
                            *sums.running.entry(utid).or_default() += dur;
                        }
                    }
                    // Each of these rows is also one of a CPU.
                    Content::Activity(_) => {}
                    Content::Ftrace(_) => {
                        let name = self.label(&of.content, row).name;
                        sums.events.of(name).add(dur);
                    }
                    _ => {
                        let name = self.label(&of.content, row).name;
                        sums.names.of(name).add(dur);
                    }
                }
                if let Content::Slices(_) = of.content
                    && let Some(parent) = tables.slice.parent_id().get(row)
                {
                    let name = tables.slice.name().get(parent);
                    let sum = sums.names.of(name);
                    sum.own = sum.own.saturating_sub(dur);
                }
            }
        }
    }

    fn sum_counter(&self, node: u32, window: &Range<i64>, sums: &mut Sums) {
        let of = &self.scene().nodes()[node as usize];
        let table = &self.trace().tables().counter;
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut area, mut before): (f64, Option<(i64, f64)>) = (0.0, None);
        let mut count = 0_u64;
        self.scene()
            .counters()
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
        let first = self.scene().counters().rows(of.lane).first();
        let first = first.map_or(window.start, |row| table.ts().get(row));
        let length = window.end.saturating_sub(first.max(window.start)).max(1);
        let strings = self.trace().strings();
        let process = self.process_of(node);
        let process = self.node(process).map(|_| self.title(process));
        sums.counters.push(json!({
            "node": node, "name": of.name.text(strings), "unit": of.unit(strings),
            "process": process, "rate": self.rate(of.lane, window),
            "count": count, "min": min, "max": max, "mean": area / length as f64, "last": last,
        }));
    }

    /// Returns the growth of a counter per second; `None` if it is not cumulative, and so its
    /// values decrease or are not more than one.
    fn rate(&self, counter: u32, window: &Range<i64>) -> Option<f64> {
        let table = &self.trace().tables().counter;
        let rows = self.scene().counters().rows(counter);
        let value = |row: u32| table.value().get(row);
        let is_cumulative = rows
            .iter()
            .is_sorted_by(|one, next| value(*one) <= value(*next));
        let (first, last) = (value(rows.first()?), value(rows.last()?));
        if !is_cumulative || first == last {
            return None;
        }
        let at = |time: i64| {
            let position = rows.partition_point(|row| table.ts().get(row) <= time);
            rows.get(position.saturating_sub(1)).map(value)
        };
        let growth = at(window.end)? - at(window.start)?;
        let start = window.start.max(self.bounds().start);
        let length = window.end.min(self.bounds().end).saturating_sub(start);
        (length > 0).then(|| growth / (length as f64 / 1e9))
    }

    /// Returns the numbers and mean delays of flows that begin or end in a window on these nodes,
    /// by direction and names.
    fn flow_sums(&self, window: &Range<i64>, nodes: &[u32], left_out: &mut usize) -> Vec<Value> {
        let (slices, table) = (&self.trace().tables().slice, &self.trace().tables().flow);
        let mut is_chosen = vec![false; self.scene().nodes().len()];
        for node in nodes {
            is_chosen[*node as usize] = true;
        }
        let is_inside = |slice: u32| {
            let found = self.position_of_slice(slice);
            found.is_some_and(|(node, _)| is_chosen[node as usize])
                && window.contains(&slices.ts().get(slice))
        };
        let mut sums: FxHashMap<(&str, StringId, StringId), (u64, i64)> = FxHashMap::default();
        for row in 0..table.len() {
            let (from, to) = (table.slice_out().get(row), table.slice_in().get(row));
            let direction = match (is_inside(from), is_inside(to)) {
                (true, true) => "within",
                (true, false) => "out",
                (false, true) => "in",
                (false, false) => continue,
            };
            let name = |slice| slices.name().get(slice);
            let delay = slices.ts().get(to).saturating_sub(slices.ts().get(from));
            let sum = sums.entry((direction, name(from), name(to))).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(delay));
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(key, (count, _))| (u64::MAX - count, *key));
        *left_out += sums.len().saturating_sub(MAX_ENTRIES);
        let text = |id| self.trace().strings().text(id);
        let sums = sums.into_iter().take(MAX_ENTRIES);
        sums.map(|((direction, from, to), (count, delay))| {
            json!({
                "direction": direction, "from": text(from), "to": text(to), "count": count,
                "mean": delay as f64 / count as f64,
            })
        })
        .collect()
    }
}
