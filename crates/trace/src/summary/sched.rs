//! CPU time from context switches; without them, from the kernel's counters.

use std::collections::BTreeMap;
use std::iter::Peekable;

use ferretto_format::compact_sched::{CompactKind, CompactRow, CompactSched};
use ferretto_format::kernel_bundle::BundleHeader;
use ferretto_proto::fields::sys_stats::{self, cpu_times};
use ferretto_wire::Fields;

use crate::threads::Threads;

/// The maximum number of CPUs, so that memory is bounded for any input.
const MAX_CPUS: usize = 1 << 14;

/// The maximum number of context switches of a bundle, which contains some pages of the kernel's
/// buffer. Others are left out.
pub(super) const MAX_COMPACT: usize = 1 << 18;

/// The summary of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSummary {
    /// The machine; 0 is the machine of the tracing service.
    pub machine: u32,
    /// The number of the CPU.
    pub cpu: u32,
    /// The number of context switches. `None` if they were not recorded: then the times are those
    /// that the kernel counted between the first and the last sample of `/proc/stat`, in steps of
    /// 10 ms on most machines.
    pub switches: Option<u64>,
    /// The number of switches that the kernel left out without a report: the next one is from
    /// another thread than the one before was to.
    pub missing_switches: u64,
    /// The time in which it is unknown what ran, because switches are missing, in nanoseconds.
    pub unknown_ns: u64,
    /// The time between the first and the last switch in which a task other than the idle task ran,
    /// in nanoseconds.
    pub busy_ns: u64,
    /// The time in which the idle task ran, in nanoseconds.
    pub idle_ns: u64,
}

/// The times that the kernel has counted for a CPU since the machine started, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    busy: u64,
    idle: u64,
}

#[derive(Debug, Default)]
struct Cpu {
    switches: u64,
    missing_switches: u64,
    unknown_ns: u64,
    /// The next thread of the last switch, unless events were lost since.
    next: Option<i32>,
    /// The time of the last switch.
    since: u64,
    /// The time of the last event that shows it on the CPU, before those of others.
    known_until: u64,
    /// Set once an event shows another thread on the CPU: a switch is missing before it.
    has_other: bool,
    busy_ns: u64,
    idle_ns: u64,
    running: Option<(u64, i32)>,
}

/// The running task of each CPU.
#[derive(Debug, Default)]
pub(super) struct Sched {
    cpus: BTreeMap<(u32, u32), Cpu>,
    /// The first and the last counters of each CPU.
    counted: BTreeMap<(u32, u32), (Counted, Counted)>,
}

impl Sched {
    /// Clears the running task because events are missing: the time up to the next switch cannot be
    /// attributed.
    pub(super) fn gap(&mut self, machine: u32, cpu: u32) {
        if let Some(cpu) = self.cpus.get_mut(&(machine, cpu)) {
            (cpu.running, cpu.next) = (None, None);
        }
    }

    /// Reads an event of a thread on a CPU at `at`, in nanoseconds. Those at the time of the last
    /// switch may be of the thread before; parts of recordings begin so.
    pub(super) fn event(&mut self, cpu: (u32, u32), at: u64, pid: i32) {
        if let Some(cpu) = self.cpus.get_mut(&cpu).filter(|cpu| at > cpu.since) {
            cpu.has_other |= cpu.next != Some(pid);
            if !cpu.has_other {
                cpu.known_until = at;
            }
        }
    }

    /// Reads the CPU times of a `SysStats`.
    pub(super) fn sys_stats(&mut self, machine: u32, bytes: &[u8]) {
        let times = Fields::new(bytes).map_while(Result::ok);
        for message in times.filter(|field| field.number == sys_stats::CPU_STAT) {
            let Some(message) = message.as_bytes() else {
                continue;
            };
            let mut cpu = 0;
            let mut counted = Counted::default();
            for field in Fields::new(message).map_while(Result::ok) {
                let Some(value) = field.as_u64() else {
                    continue;
                };
                let sum = match field.number {
                    cpu_times::CPU_ID => {
                        cpu = u32::try_from(value).unwrap_or(u32::MAX);
                        continue;
                    }
                    cpu_times::IDLE_NS | cpu_times::IO_WAIT_NS => &mut counted.idle,
                    // Time that other virtual machines had is neither.
                    cpu_times::STEAL_NS => continue,
                    _ => &mut counted.busy,
                };
                *sum = sum.saturating_add(value);
            }
            let key = (machine, cpu);
            if let Some((_, last)) = self.counted.get_mut(&key) {
                *last = counted;
            } else if self.counted.len() < MAX_CPUS {
                self.counted.insert(key, (counted, counted));
            }
        }
    }

    /// Reads a context switch at `at`, in nanoseconds, to the thread `next`. The compact encoding
    /// omits the previous thread.
    pub(super) fn switch(
        &mut self,
        threads: &mut Threads,
        cpu: (u32, u32),
        at: u64,
        (prev, next): (Option<i32>, i32),
    ) {
        let machine = cpu.0;
        let full = self.cpus.len() >= MAX_CPUS;
        let cpu = match self.cpus.get_mut(&cpu) {
            Some(cpu) => cpu,
            None if full => return,
            None => self.cpus.entry(cpu).or_default(),
        };
        cpu.switches += 1;
        let is_broken = prev.is_some_and(|prev| cpu.next.is_some_and(|next| next != prev));
        if is_broken {
            cpu.missing_switches += 1;
            let until = cpu.known_until.min(at);
            cpu.run_until(threads, machine, until);
            if cpu.running.is_some() {
                cpu.unknown_ns = cpu.unknown_ns.saturating_add(at - until);
            }
        } else {
            cpu.run_until(threads, machine, at);
        }
        (cpu.running, cpu.next) = (Some((at, next)), Some(next));
        (cpu.since, cpu.known_until, cpu.has_other) = (at, at, false);
    }

    /// Reads the context switches of a compact bundle until a time.
    pub(super) fn compact<'a>(
        &mut self,
        threads: &mut Threads,
        cpu: (u32, u32),
        rows: &mut Peekable<impl Iterator<Item = CompactRow<'a>>>,
        (header, until): (&BundleHeader, u64),
        seen: &mut Compact,
    ) {
        while let Some(row) = rows.next_if(|row| header.to_boot(row.time) <= until) {
            let (at, pid) = (header.to_boot(row.time), row.second as i32);
            seen.switches += 1;
            seen.note(at);
            // The compact encoding omits the thread that ran before, so readers only begin with the
            // second switch of a CPU.
            let is_first = !self.cpus.contains_key(&cpu);
            self.switch(threads, cpu, at, (None, pid));
            if let Some(cpu) = self.cpus.get_mut(&cpu).filter(|_| is_first) {
                cpu.running = None;
            }
            threads.set_comm(cpu.0, at, pid, row.name);
        }
    }

    /// Returns the summaries. The last thread on each CPU ran until the end of the trace.
    pub(super) fn finish(mut self, threads: &mut Threads, end: Option<u64>) -> Vec<CpuSummary> {
        for (&(machine, _), cpu) in &mut self.cpus {
            if let Some(end) = end {
                cpu.run_until(threads, machine, end);
            }
        }
        let summary = |(&(machine, number), cpu): (&(u32, u32), &Cpu)| CpuSummary {
            machine,
            cpu: number,
            switches: Some(cpu.switches),
            missing_switches: cpu.missing_switches,
            unknown_ns: cpu.unknown_ns,
            busy_ns: cpu.busy_ns,
            idle_ns: cpu.idle_ns,
        };
        let with_switches = |machine| self.cpus.range((machine, 0)..).next();
        let has_switches =
            |machine| with_switches(machine).is_some_and(|((other, _), _)| *other == machine);
        let counted = self.counted.iter().filter(|((machine, _), (first, last))| {
            !has_switches(*machine) && (last.busy, last.idle) > (first.busy, first.idle)
        });
        let of_counters = counted.map(|(&(machine, cpu), (first, last))| CpuSummary {
            machine,
            cpu,
            switches: None,
            missing_switches: 0,
            unknown_ns: 0,
            busy_ns: last.busy.saturating_sub(first.busy),
            idle_ns: last.idle.saturating_sub(first.idle),
        });
        let mut cpus: Vec<_> = self.cpus.iter().map(summary).chain(of_counters).collect();
        cpus.sort_by_key(|cpu| (cpu.machine, cpu.cpu));
        cpus
    }
}

impl Cpu {
    fn run_until(&mut self, threads: &mut Threads, machine: u32, at: u64) {
        let Some((since, pid)) = self.running else {
            return;
        };
        // Times that go backwards, because of damage or a changed clock, count as 0.
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
    /// The first and the last time.
    pub(super) times: Option<(u64, u64)>,
}

impl Compact {
    /// Counts the wake-ups.
    pub(super) fn wakings(&mut self, columns: &CompactSched<'_>, header: &BundleHeader) {
        for row in columns.rows(CompactKind::Wakings) {
            self.wakings += 1;
            self.note(header.to_boot(row.time));
        }
    }

    fn note(&mut self, time: u64) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }
}
