//! Kernel events: counts by kind, and losses in the kernel's buffers.

use std::collections::BTreeMap;

use ferretto_format::ProbeEvent;
use ferretto_format::kernel_bundle::{BundleHeader, CompactSched};
use ferretto_text::amount::counted;
use ferretto_wire::Fields;

use super::activity::{Activity, KernelEvent};
use super::config::Config;
use super::loss::{Cause, Loss};
use super::sched::Sched;
use crate::bounds::EventTimes;
use crate::limits::Budget;
use crate::printable::printable;
use crate::threads::Threads;

/// `FtraceEvent` fields.
const EVENT_TIMESTAMP: u32 = 1;
const EVENT_PID: u32 = 2;
const EVENT_SCHED_SWITCH: u32 = 4;
const EVENT_COMMON_FLAGS: u32 = 5;
const EVENT_SCHED_WAKING: u32 = 20;
const EVENT_TASK_NEWTASK: u32 = 235;
const EVENT_TASK_RENAME: u32 = 236;
/// The first field number of events that the recorder described at run time.
pub(super) const FIRST_GENERIC: u32 = 65536;

/// The maximum numbers of kinds, CPUs and names, so that memory is bounded for any input.
const MAX_KINDS: usize = 1 << 12;
const MAX_CPUS: usize = 1 << 14;
const MAX_NAMES: usize = 1 << 10;

/// `FtraceStats.Phase`.
const PHASE_START: u64 = 1;
const PHASE_END: u64 = 2;

/// The maximum difference between the time of the last flush and the time at which the kernel's
/// counters were read for it. Older counters were not read for that flush.
const LAST_FLUSH_NS: u64 = 10_000_000;

/// The parts of a summary that kernel events of a bundle change.
pub(super) struct Around<'a> {
    pub(super) sched: &'a mut Sched,
    pub(super) threads: &'a mut Threads,
    pub(super) times: &'a mut EventTimes,
    pub(super) header: BundleHeader,
}

/// An event that the recorder described.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) probe: Option<ProbeEvent>,
    /// True if calls and returns of the function are recorded.
    pub(super) is_paired: bool,
}

impl Described {
    /// Returns true if one event is the call and the other the return of a function.
    fn is_counterpart(&self, other: &Self) -> bool {
        let (Some(probe), Some(of_other)) = (&self.probe, &other.probe) else {
            return false;
        };
        self.group == other.group
            && probe.function == of_other.function
            && probe.is_return != of_other.is_return
    }
}

/// The summary of kernel events.
#[derive(Debug, Default)]
pub(super) struct Ftrace {
    /// The number of events by `FtraceEvent` field number. Described generic events are counted by
    /// name in `generic`, other generic events under [`FIRST_GENERIC`].
    pub(super) events: BTreeMap<u32, u64>,
    pub(super) generic: BTreeMap<String, u64>,
    /// The groups and names of generic events by machine, sequence and field number.
    descriptions: BTreeMap<(u32, u32, u32), Described>,
    /// The summary of system calls, interrupts and other activities, if enabled.
    pub(super) activity: Option<Activity>,
    /// The number of bundles after a gap, by machine and CPU.
    gaps: BTreeMap<(u32, u32), u64>,
    /// The number of overwritten events by machine and CPU, at the start and at the end of the
    /// recording.
    start: BTreeMap<(u32, u32), u64>,
    end: BTreeMap<(u32, u32), u64>,
    /// The time at which the final counters of the service's machine were read, in nanoseconds on
    /// the clock of the kernel's buffers.
    end_at: Option<u64>,
    /// True if kernel events are on another clock than the trace.
    foreign_clock: bool,
    parse_errors: u64,
    buffer_pages: u64,
    missing: Vec<String>,
}

impl Ftrace {
    /// Creates a summary that includes system calls, interrupts and other activities.
    pub(super) fn with_activity(budget: &Budget) -> Self {
        Self {
            activity: Some(Activity::new(budget)),
            ..Self::default()
        }
    }

    /// Returns the total number of events.
    pub(super) fn total(&self) -> u64 {
        self.events
            .values()
            .chain(self.generic.values())
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Reads a `FtraceEventBundle`.
    pub(super) fn bundle(
        &mut self,
        machine: u32,
        sequence: u32,
        bytes: &[u8],
        around: &mut Around<'_>,
    ) {
        // The CPU, the clock and the gap are before or after the events, depending on the writer.
        let (mut cpu, mut gap, mut foreign_clock) = (0, false, false);
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                1 => cpu = field.as_u32().unwrap_or(0),
                3 => gap = field.as_bool().unwrap_or(false),
                5 => foreign_clock = field.as_u64().unwrap_or(0) != 0,
                8 => self.parse_errors += 1,
                11 => self.description((machine, sequence), field.as_bytes().unwrap_or_default()),
                _ => {}
            }
        }
        self.foreign_clock |= foreign_clock;
        let cpu = (machine, cpu);
        let mut is_after_gap = gap;
        if gap {
            around.sched.gap(cpu.0, cpu.1);
            bump(&mut self.gaps, cpu, 1, MAX_CPUS);
        }
        let shown_from = around.times.kernel_start(machine);
        let mut shown: Option<(u64, u64)> = None;
        for field in Fields::new(bytes).map_while(Result::ok) {
            let Some(body) = field.as_bytes() else {
                continue;
            };
            let span = match field.number {
                2 => self.event(cpu, sequence, body, around),
                4 => {
                    let columns = CompactSched::read(body);
                    let is_known = around.times.is_known(cpu);
                    let header = around.header;
                    let seen = around.sched.compact(around.threads, cpu, &columns, &header);
                    if !is_known {
                        around.times.compact(cpu, &columns, &header);
                    } else if let Some((first, last)) = seen.times {
                        around.times.kernel(machine, first, last);
                    }
                    bump(
                        &mut self.events,
                        EVENT_SCHED_SWITCH,
                        seen.switches,
                        MAX_KINDS,
                    );
                    bump(
                        &mut self.events,
                        EVENT_SCHED_WAKING,
                        seen.wakings,
                        MAX_KINDS,
                    );
                    seen.times
                }
                _ => None,
            };
            if let Some((first, _)) = span
                && std::mem::take(&mut is_after_gap)
                && let Some(activity) = &mut self.activity
            {
                activity.gap(cpu.0, first.saturating_sub(1));
            }
            if let (2, Some((time, _))) = (field.number, span)
                && time >= shown_from
            {
                let (low, high) = shown.unwrap_or((time, time));
                shown = Some((low.min(time), high.max(time)));
            }
        }
        if let Some((first, last)) = shown {
            around.times.kernel(machine, first, last);
        }
    }

    fn event(
        &mut self,
        cpu: (u32, u32),
        sequence: u32,
        event: &[u8],
        around: &mut Around<'_>,
    ) -> Option<(u64, u64)> {
        let (mut at, mut pid, mut kind, mut body) = (None, 0, None, None);
        for field in Fields::new(event).map_while(Result::ok) {
            match field.number {
                EVENT_TIMESTAMP => at = field.as_u64(),
                EVENT_PID => pid = field.as_u64().unwrap_or(0) as i32,
                EVENT_COMMON_FLAGS => {}
                number => {
                    kind = Some(number);
                    body = field.as_bytes();
                }
            }
        }
        let described = self.descriptions.get(&(cpu.0, sequence, kind?));
        match described {
            Some(event) => bump(&mut self.generic, event.name.clone(), 1, MAX_KINDS),
            None => bump(&mut self.events, kind?.min(FIRST_GENERIC), 1, MAX_KINDS),
        }
        let at = around.header.to_boot(at?);
        let (sched, threads) = (&mut *around.sched, &mut *around.threads);
        match (kind, body) {
            (Some(EVENT_SCHED_SWITCH), Some(body)) => {
                let next = Fields::find(6, body).and_then(|f| f.as_u64()).unwrap_or(0) as i32;
                sched.switch(threads, cpu, at, next);
                if !around.times.is_known(cpu) {
                    around.times.switch(cpu, at);
                }
                if let Some(comm) = Fields::find(5, body).and_then(|f| f.as_bytes()) {
                    threads.set_comm(cpu.0, at, next, comm);
                }
            }
            (Some(EVENT_TASK_NEWTASK), Some(body)) => threads.new_task(cpu.0, at, pid, body),
            (Some(EVENT_TASK_RENAME), Some(body)) => {
                // A thread can rename another one of its process.
                let renamed = Fields::find(1, body).and_then(|f| f.as_u64());
                let renamed = renamed.map_or(pid, |tid| tid as i32);
                if let Some(comm) = Fields::find(3, body).and_then(|f| f.as_bytes()) {
                    threads.set_comm(cpu.0, at, renamed, comm);
                }
            }
            (Some(kind), Some(body)) => {
                if let Some(activity) = &mut self.activity {
                    activity.event(KernelEvent {
                        machine: cpu.0,
                        cpu: cpu.1,
                        pid,
                        at,
                        kind,
                        described,
                        body,
                    });
                }
            }
            _ => {}
        }
        Some((at, at))
    }

    /// Reads a `GenericEventDescriptor`, which precedes the events that it describes.
    fn description(&mut self, (machine, sequence): (u32, u32), bytes: &[u8]) {
        let number = Fields::find(1, bytes).and_then(|field| field.as_u32());
        let name = Fields::find(2, bytes)
            .and_then(|descriptor| Fields::find(1, descriptor.as_bytes()?))
            .and_then(|name| name.as_bytes());
        let group = Fields::find(3, bytes).and_then(|group| group.as_bytes());
        if let (Some(number), Some(name)) = (number, name)
            && number >= FIRST_GENERIC
            && self.descriptions.len() < MAX_KINDS
        {
            let key = (machine, sequence, number);
            let descriptor = Fields::find(2, bytes).and_then(|field| field.as_bytes());
            let probe = ProbeEvent::read(descriptor.unwrap_or_default());
            let mut event = Described {
                group: printable(group.unwrap_or_default()),
                name: printable(name),
                probe,
                is_paired: false,
            };
            let of_sequence = (machine, sequence, 0)..=(machine, sequence, u32::MAX);
            for (_, known) in self.descriptions.range_mut(of_sequence) {
                if known.is_counterpart(&event) {
                    known.is_paired = true;
                    event.is_paired = true;
                }
            }
            self.descriptions.entry(key).or_insert(event);
        }
    }

    /// Reads a `FtraceStats`.
    pub(super) fn stats(&mut self, machine: u32, bytes: &[u8]) {
        let phase = Fields::find(1, bytes).and_then(|f| f.as_u64());
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                2 => {
                    let (Some(cpu), Some(phase)) = (field.as_bytes(), phase) else {
                        continue;
                    };
                    let (number, lost, read_at) = read_cpu(cpu);
                    if phase == PHASE_END && machine == 0 {
                        self.end_at = self.end_at.max(read_at);
                    }
                    let side = match phase {
                        PHASE_START => &mut self.start,
                        PHASE_END => &mut self.end,
                        _ => continue,
                    };
                    if side.len() < MAX_CPUS {
                        side.insert((machine, number), lost);
                    }
                }
                6 | 7 if self.missing.len() < MAX_NAMES => {
                    let name = printable(field.as_bytes().unwrap_or_default());
                    if !self.missing.contains(&name) {
                        self.missing.push(name);
                    }
                }
                11 => self.buffer_pages = field.as_u64().unwrap_or(0),
                _ => {}
            }
        }
    }

    /// Returns the requested events that were not available.
    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns true if the kernel's counters were recorded: then all losses are known.
    pub(super) fn has_stats(&self) -> bool {
        !self.end.is_empty()
    }

    /// Returns the number of nanoseconds between the last packet of the recorder of kernel events
    /// and `asked`, the time of the last flush, if it did not answer this flush.
    pub(super) fn missing_at_the_end(&self, asked: Option<u64>) -> Option<u64> {
        let end_at = self.end_at.filter(|_| !self.foreign_clock)?;
        asked?
            .checked_sub(end_at)
            .filter(|missing| *missing > LAST_FLUSH_NS)
    }

    /// Returns the losses in the kernel's buffers.
    pub(super) fn losses(&self, config: &Config) -> Vec<Loss> {
        let mut losses = Vec::new();
        let lost = |cpu: &(u32, u32)| {
            let end = self.end.get(cpu).copied().unwrap_or(0);
            end.saturating_sub(self.start.get(cpu).copied().unwrap_or(0))
        };
        let (mut events, mut cpus) = (0u64, Vec::new());
        for cpu in self.end.keys().filter(|cpu| lost(cpu) > 0) {
            events = events.saturating_add(lost(cpu));
            cpus.push(cpu.1);
        }
        let advice = self.buffer_advice(config);
        if events > 0 {
            let place = format!("kernel buffer of {}", list_cpus(&cpus));
            let amount = format!(
                "{} overwritten before they were read",
                counted(events, "event")
            );
            let advice = advice.clone();
            losses.push(Loss {
                cause: Cause::KernelBuffer,
                place,
                amount,
                advice,
            });
        } else if !self.gaps.is_empty() {
            let cpus: Vec<u32> = self.gaps.keys().map(|cpu| cpu.1).collect();
            let gaps = self
                .gaps
                .values()
                .fold(0u64, |sum, n| sum.saturating_add(*n));
            let place = format!("kernel buffer of {}", list_cpus(&cpus));
            let amount = counted(gaps, "gap");
            losses.push(Loss {
                cause: Cause::KernelBuffer,
                place,
                amount,
                advice,
            });
        }
        if self.parse_errors > 0 {
            losses.push(Loss {
                cause: Cause::KernelParse,
                place: "kernel buffer".to_owned(),
                amount: counted(self.parse_errors, "page"),
                advice: "please report this with the kernel version".to_owned(),
            });
        }
        losses
    }

    fn buffer_advice(&self, config: &Config) -> String {
        let drain = match config.drain_period_ms {
            0 => 100,
            ms => ms,
        };
        let now = match self.buffer_pages {
            0 => String::new(),
            pages => format!(" (now {} per CPU)", pages.saturating_mul(4)),
        };
        format!("raise ftrace_config.buffer_size_kb{now} or lower drain_period_ms (now {drain})")
    }
}

/// Returns the number, the lost events and the time of a `FtraceCpuStats`.
fn read_cpu(bytes: &[u8]) -> (u32, u64, Option<u64>) {
    let (mut cpu, mut lost, mut read_at) = (0, 0u64, None);
    for field in Fields::new(bytes).map_while(Result::ok) {
        match field.number {
            1 => cpu = field.as_u32().unwrap_or(0),
            // Overwritten, failed to commit, and dropped because a buffer without overwriting was
            // full.
            3 | 4 | 8 => lost = lost.saturating_add(field.as_u64().unwrap_or(0)),
            // Seconds; the conversion saturates.
            7 => read_at = field.as_f64().map(|seconds| (seconds * 1e9) as u64),
            _ => {}
        }
    }
    (cpu, lost, read_at)
}

fn bump<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, by: u64, limit: usize) {
    if by == 0 || (counts.len() >= limit && !counts.contains_key(&key)) {
        return;
    }
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(by);
}

/// Formats a list of CPUs: `CPU 3`, `CPUs 0, 1, 5` or `64 CPUs`.
fn list_cpus(cpus: &[u32]) -> String {
    match cpus {
        [cpu] => format!("CPU {cpu}"),
        _ if cpus.len() <= 8 => {
            let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
            format!("CPUs {}", list.join(", "))
        }
        _ => format!("{} CPUs", cpus.len()),
    }
}
