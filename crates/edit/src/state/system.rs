//! The last known processes, threads and measurements of a system.

use std::collections::BTreeMap;

use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_proto::fields::{process_stats, process_tree, sys_stats, trace_packet};
use ferretto_wire::{Field, Fields, encode};

use super::When;
use super::sequence::Writer;
use crate::packet::copy;

/// The fields of `SysStats` that readers show as differences.
const RATES: [u32; 1] = [sys_stats::DISK_STAT];

/// The encoded fields of an entry.
type Parts = BTreeMap<u32, Vec<u8>>;

/// The system of one machine.
#[derive(Debug)]
pub(crate) struct System {
    budget: Budget,
    writer: Writer,
    processes: BTreeMap<u64, Vec<u8>>,
    threads: BTreeMap<u64, Vec<u8>>,
    /// The timestamp of the last process tree.
    tree_time: u64,
    /// The statistics of processes: their timestamp, and the last values of all fields.
    statistics: BTreeMap<u64, (u64, Parts)>,
    /// The end times of threads. Packets written before the end may follow later.
    ended: BTreeMap<u64, u64>,
    /// The measurements by sequence and field of the packet: their writer, their timestamp, and the
    /// last values of all fields.
    measurements: BTreeMap<(u32, u32), (Writer, u64, Parts)>,
}

impl System {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            writer: Writer::default(),
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            tree_time: 0,
            statistics: BTreeMap::new(),
            ended: BTreeMap::new(),
            measurements: BTreeMap::new(),
        }
    }

    /// Reads a `ProcessTree` with its timestamp.
    pub(crate) fn tree(&mut self, writer: Writer, time: Option<u64>, tree: &[u8]) {
        self.writer = writer;
        self.tree_time = time.unwrap_or(0).max(self.tree_time);
        for field in Fields::new(tree).map_while(Result::ok) {
            let Some(bytes) = field.as_bytes() else {
                continue;
            };
            // The id is the first field of both processes and threads.
            let number = Fields::find(process_tree::process::PID, bytes).and_then(|it| it.as_u64());
            let Some(number) = number.filter(|number| self.is_alive(*number, time)) else {
                continue;
            };
            if !self.budget.take(bytes.len() + 64) {
                continue;
            }
            match field.number {
                process_tree::PROCESSES => drop(self.processes.insert(number, bytes.to_vec())),
                process_tree::THREADS => drop(self.threads.insert(number, bytes.to_vec())),
                _ => {}
            }
        }
    }

    /// Reads a `ProcessStats` with its timestamp.
    pub(crate) fn statistics(&mut self, writer: Writer, time: Option<u64>, stats: &[u8]) {
        self.writer = writer;
        for field in Fields::new(stats).map_while(Result::ok) {
            if field.number != process_stats::PROCESSES {
                continue;
            }
            let bytes = field.as_bytes().unwrap_or_default();
            let pid = Fields::find(process_stats::process::PID, bytes).and_then(|it| it.as_u64());
            let Some(pid) = pid.filter(|pid| self.is_alive(*pid, time)) else {
                continue;
            };
            if !self.statistics.contains_key(&pid)
                && !self.budget.take(8 * entry_bytes::<(u32, Vec<u8>)>())
            {
                continue;
            }
            let (last, parts) = self.statistics.entry(pid).or_default();
            let time = time.unwrap_or(*last);
            if time < *last {
                continue;
            }
            *last = time;
            for part in Fields::new(bytes).map_while(Result::ok) {
                let is_value = !matches!(
                    part.number,
                    process_stats::process::THREADS | process_stats::process::FDS
                );
                if is_value {
                    parts.insert(part.number, encode(|out| copy(&part, out)));
                }
            }
        }
    }

    /// Adds a measurement.
    pub(crate) fn measure(&mut self, writer: Writer, time: u64, content: &Field<'_>) {
        let mut parts = Parts::new();
        let body = content.as_bytes().unwrap_or_default();
        for part in Fields::new(body).map_while(Result::ok) {
            let encoded = encode(|out| copy(&part, out));
            parts.entry(part.number).or_default().extend(encoded);
        }
        let key = (writer.sequence, content.number);
        if !self.measurements.contains_key(&key) && !self.budget.take(2 * body.len() + 256) {
            return;
        }
        let (_, last, known) = self
            .measurements
            .entry(key)
            .or_insert_with(|| (writer, time, Parts::new()));
        if time < *last {
            std::mem::swap(known, &mut parts);
        }
        *last = time.max(*last);
        known.append(&mut parts);
    }

    /// Records the end of a thread, and of its process if it is the main thread.
    pub(crate) fn thread_ended(&mut self, pid: u64, time: u64) {
        self.processes.remove(&pid);
        self.threads.remove(&pid);
        self.statistics.remove(&pid);
        if self.ended.contains_key(&pid) || self.budget.take(entry_bytes::<(u64, u64)>()) {
            let last = self.ended.entry(pid).or_default();
            *last = time.max(*last);
        }
    }

    /// Returns true if a thread has not ended before a time, or if its id was reused.
    fn is_alive(&self, pid: u64, time: Option<u64>) -> bool {
        let ended = self.ended.get(&pid);
        ended.is_none_or(|ended| time.is_none_or(|time| time > *ended))
    }

    /// Returns true if the process of a thread is known.
    pub(crate) fn has(&self, pid: u64) -> bool {
        self.processes.contains_key(&pid) || self.threads.contains_key(&pid)
    }

    /// Writes the state as packets.
    pub(super) fn write(&self, when: When, out: &mut dyn FnMut(Vec<u8>)) {
        if !self.processes.is_empty() || !self.threads.is_empty() {
            out(encode(|out| {
                self.writer.write(out);
                self.writer.write_time(when.of(self.tree_time), out);
                out.nested(trace_packet::PROCESS_TREE, |out| {
                    let all = self.processes.values();
                    all.for_each(|it| out.bytes(process_tree::PROCESSES, it));
                    let all = self.threads.values();
                    all.for_each(|it| out.bytes(process_tree::THREADS, it));
                });
            }));
        }
        let mut statistics: BTreeMap<u64, Vec<&Parts>> = BTreeMap::new();
        for (time, parts) in self.statistics.values() {
            let of_time = statistics.entry(when.of(*time)).or_default();
            of_time.push(parts);
        }
        for (time, processes) in statistics {
            out(encode(|out| {
                self.writer.write(out);
                self.writer.write_time(time, out);
                out.nested(trace_packet::PROCESS_STATS, |out| {
                    for parts in processes {
                        out.nested(process_stats::PROCESSES, |out| {
                            parts.values().for_each(|part| out.raw(part));
                        });
                    }
                });
            }));
        }
        for ((_, number), (writer, time, parts)) in &self.measurements {
            // A rate needs two measurements, so the first one keeps its timestamp.
            let is_rate = |part: &u32| *number == trace_packet::SYS_STATS && RATES.contains(part);
            for (time, are_rates) in [(*time, true), (when.of(*time), false)] {
                let mut parts = parts.iter().filter(|(part, _)| is_rate(part) == are_rates);
                let Some(first) = parts.next() else { continue };
                out(encode(|out| {
                    writer.write(out);
                    writer.write_time(time, out);
                    out.nested(*number, |out| {
                        out.raw(first.1);
                        parts.for_each(|(_, part)| out.raw(part));
                    });
                }));
            }
        }
    }
}
