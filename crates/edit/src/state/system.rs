//! Processes, threads and measurements of the system, as they were last told.

use std::collections::BTreeMap;

use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_proto::fields::{process_stats, process_tree, sys_stats, trace_packet};
use ferretto_wire::{Field, Fields, encode};

use super::events::write_time;
use super::sequence::Writer;
use crate::packet::copy;

/// The fields of `SysStats` of which only differences are shown.
const RATES: [u32; 1] = [sys_stats::DISK_STAT];

/// The fields of an entry, encoded.
type Parts = BTreeMap<u32, Vec<u8>>;

/// The system of one machine.
#[derive(Debug)]
pub(crate) struct System {
    budget: Budget,
    writer: Writer,
    processes: BTreeMap<u64, Vec<u8>>,
    threads: BTreeMap<u64, Vec<u8>>,
    /// The statistics of processes: all fields as they were last told.
    statistics: BTreeMap<u64, Parts>,
    /// Measurements by their writer and the packet's field: when, and all fields as they were last
    /// told.
    measurements: BTreeMap<(u32, u32), (Writer, u64, Parts)>,
}

impl System {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            writer: Writer::default(),
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            statistics: BTreeMap::new(),
            measurements: BTreeMap::new(),
        }
    }

    /// Reads a `ProcessTree`.
    pub(crate) fn tree(&mut self, writer: Writer, tree: &[u8]) {
        self.writer = writer;
        for field in Fields::new(tree).map_while(Result::ok) {
            let Some(bytes) = field.as_bytes() else {
                continue;
            };
            // Their first field is the number, of both.
            let number = Fields::find(process_tree::process::PID, bytes).and_then(|it| it.as_u64());
            let (Some(number), true) = (number, self.budget.take(bytes.len() + 64)) else {
                continue;
            };
            match field.number {
                process_tree::PROCESSES => drop(self.processes.insert(number, bytes.to_vec())),
                process_tree::THREADS => drop(self.threads.insert(number, bytes.to_vec())),
                _ => {}
            }
        }
    }

    /// Reads a `ProcessStats`.
    pub(crate) fn statistics(&mut self, writer: Writer, stats: &[u8]) {
        self.writer = writer;
        for field in Fields::new(stats).map_while(Result::ok) {
            if field.number != process_stats::PROCESSES {
                continue;
            }
            let bytes = field.as_bytes().unwrap_or_default();
            let pid = Fields::find(process_stats::process::PID, bytes).and_then(|it| it.as_u64());
            let Some(pid) = pid else { continue };
            if !self.statistics.contains_key(&pid)
                && !self.budget.take(8 * entry_bytes::<(u32, Vec<u8>)>())
            {
                continue;
            }
            let parts = self.statistics.entry(pid).or_default();
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

    /// Takes in a measurement.
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
        *last = time;
        known.append(&mut parts);
    }

    /// A thread ended, and a process if it was its first.
    pub(crate) fn gone(&mut self, pid: u64) {
        self.processes.remove(&pid);
        self.threads.remove(&pid);
        self.statistics.remove(&pid);
    }

    /// Returns true if it is known of which process a thread is.
    pub(crate) fn has(&self, pid: u64) -> bool {
        self.processes.contains_key(&pid) || self.threads.contains_key(&pid)
    }

    /// Writes all that holds, measurements at `at` or their own time.
    pub(crate) fn write(&self, at: Option<u64>, latest: u64, out: &mut dyn FnMut(Vec<u8>)) {
        if !self.processes.is_empty() || !self.threads.is_empty() {
            out(encode(|out| {
                self.writer.write(out);
                write_time(at.unwrap_or(latest), out);
                out.nested(trace_packet::PROCESS_TREE, |out| {
                    let all = self.processes.values();
                    all.for_each(|it| out.bytes(process_tree::PROCESSES, it));
                    let all = self.threads.values();
                    all.for_each(|it| out.bytes(process_tree::THREADS, it));
                });
            }));
        }
        if !self.statistics.is_empty() {
            out(encode(|out| {
                self.writer.write(out);
                write_time(at.unwrap_or(latest), out);
                out.nested(trace_packet::PROCESS_STATS, |out| {
                    for parts in self.statistics.values() {
                        out.nested(process_stats::PROCESSES, |out| {
                            parts.values().for_each(|part| out.raw(part));
                        });
                    }
                });
            }));
        }
        for ((_, number), (writer, time, parts)) in &self.measurements {
            // Rates are told by two measurements, so the first one keeps its time.
            let is_rate = |part: &u32| *number == trace_packet::SYS_STATS && RATES.contains(part);
            for (time, are_rates) in [(*time, true), (at.unwrap_or(*time), false)] {
                let mut parts = parts.iter().filter(|(part, _)| is_rate(part) == are_rates);
                let Some(first) = parts.next() else { continue };
                out(encode(|out| {
                    writer.write(out);
                    write_time(time, out);
                    out.nested(*number, |out| {
                        out.raw(first.1);
                        parts.for_each(|(_, part)| out.raw(part));
                    });
                }));
            }
        }
    }
}
