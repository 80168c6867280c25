//! CPU time out of context switches.

use std::collections::BTreeMap;

use ferretto_wire::Fields;

use crate::threads::Threads;

/// CPUs beyond this number are not told apart, so that memory stays bounded on any input.
const MAX_CPUS: usize = 1 << 14;

/// Context switches of one bundle beyond this number are left out; a bundle is of some pages of the
/// kernel's buffer.
const MAX_COMPACT: usize = 1 << 18;

/// The work of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSummary {
    /// The machine; 0 is the one of the tracing service.
    pub machine: u32,
    /// Number of the CPU.
    pub cpu: u32,
    /// Context switches seen.
    pub switches: u64,
    /// Time between the first and the last switch in which something other than the idle task ran,
    /// in nanoseconds.
    pub busy_ns: u64,
    /// Time in which nothing ran, in nanoseconds.
    pub idle_ns: u64,
}

#[derive(Debug, Default)]
struct Cpu {
    switches: u64,
    busy_ns: u64,
    idle_ns: u64,
    running: Option<(u64, i32)>,
}

/// Follows who runs on each CPU.
#[derive(Debug, Default)]
pub(super) struct Sched {
    cpus: BTreeMap<(u32, u32), Cpu>,
    timestamps: Vec<u64>,
    pids: Vec<i32>,
}

impl Sched {
    /// Forgets who ran: events are missing here, so the time up to the next switch belongs to
    /// nobody known.
    pub(super) fn gap(&mut self, machine: u32, cpu: u32) {
        if let Some(cpu) = self.cpus.get_mut(&(machine, cpu)) {
            cpu.running = None;
        }
    }

    /// One context switch at `at`, in nanoseconds.
    pub(super) fn switch(&mut self, threads: &mut Threads, cpu: (u32, u32), at: u64, next: i32) {
        let machine = cpu.0;
        let full = self.cpus.len() >= MAX_CPUS;
        let cpu = match self.cpus.get_mut(&cpu) {
            Some(cpu) => cpu,
            None if full => return,
            None => self.cpus.entry(cpu).or_default(),
        };
        cpu.switches += 1;
        cpu.run_until(threads, machine, at);
        cpu.running = Some((at, next));
    }

    /// Reads the context switches of a `FtraceEventBundle.CompactSched`. Returns how many there
    /// were, the number of wakeups, and the time of the last switch.
    pub(super) fn compact(
        &mut self,
        threads: &mut Threads,
        cpu: (u32, u32),
        bytes: &[u8],
    ) -> Compact {
        let mut table: Vec<&[u8]> = Vec::new();
        let mut comms: Vec<usize> = Vec::new();
        let mut timestamps = std::mem::take(&mut self.timestamps);
        let mut pids = std::mem::take(&mut self.pids);
        timestamps.clear();
        pids.clear();
        let mut seen = Compact::default();
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                5 if table.len() < MAX_COMPACT => table.extend(field.as_bytes()),
                1 => timestamps.extend(field.as_varints().take(MAX_COMPACT - timestamps.len())),
                3 => {
                    let next = field.as_varints().map(|pid| pid as i32);
                    pids.extend(next.take(MAX_COMPACT - pids.len()));
                }
                6 => {
                    let next = field.as_varints().map(|index| index as usize);
                    comms.extend(next.take(MAX_COMPACT - comms.len()));
                }
                7 => seen.wakings += field.as_varints().count() as u64,
                _ => {}
            }
        }
        let mut at = 0u64;
        for (i, (delta, &pid)) in timestamps.iter().zip(&pids).enumerate() {
            at = at.saturating_add(*delta);
            seen.first.get_or_insert(at);
            seen.last = Some(at);
            seen.switches += 1;
            self.switch(threads, cpu, at, pid);
            if let Some(comm) = comms.get(i).and_then(|&index| table.get(index)) {
                threads.set_comm(cpu.0, at, pid, comm);
            }
        }
        (self.timestamps, self.pids) = (timestamps, pids);
        seen
    }

    /// Completes the sums at the end of the trace: the last thread on each CPU ran until then.
    pub(super) fn finish(mut self, threads: &mut Threads, end: Option<u64>) -> Vec<CpuSummary> {
        for (&(machine, _), cpu) in &mut self.cpus {
            if let Some(end) = end {
                cpu.run_until(threads, machine, end);
            }
        }
        let summary = |(&(machine, number), cpu): (&(u32, u32), &Cpu)| CpuSummary {
            machine,
            cpu: number,
            switches: cpu.switches,
            busy_ns: cpu.busy_ns,
            idle_ns: cpu.idle_ns,
        };
        self.cpus.iter().map(summary).collect()
    }
}

impl Cpu {
    fn run_until(&mut self, threads: &mut Threads, machine: u32, at: u64) {
        let Some((since, pid)) = self.running else {
            return;
        };
        // Time that runs backwards, as only damage or a changed clock makes it, counts as none.
        let ns = at.saturating_sub(since);
        if pid == 0 {
            self.idle_ns = self.idle_ns.saturating_add(ns);
        } else {
            self.busy_ns = self.busy_ns.saturating_add(ns);
            threads.add_time(machine, pid, ns);
        }
    }
}

/// The contents of a compact bundle.
#[derive(Debug, Default)]
pub(super) struct Compact {
    pub(super) switches: u64,
    pub(super) wakings: u64,
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
}
