//! Kernel events: counts by kind, and losses in the kernel's buffers.

use std::collections::BTreeMap;

use ferretto_format::ProbeEvent;
use ferretto_format::compact_sched::{CompactKind, CompactSched};
use ferretto_format::kernel_bundle::BundleHeader;
use ferretto_proto::fields::ftrace_event;
use ferretto_proto::views::ftrace_event_bundle::GenericEventDescriptorView;
use ferretto_proto::views::ftrace_stats::phase;
use ferretto_proto::views::{
    FtraceCpuStatsView, FtraceEventBundleView, FtraceStatsView, SchedSwitchFtraceEventView,
    TaskRenameFtraceEventView,
};
use ferretto_text::amount::counted;
use ferretto_wire::Fields;

use super::activity::{Activity, KernelEvent};
use super::config::Config;
use super::described::Described;
use super::loss::{Cause, Loss};
use super::sched::{Compact, MAX_COMPACT, Sched};
use crate::bounds::EventTimes;
use crate::limits::Budget;
use crate::printable::printable;
use crate::threads::Threads;

/// The first field number of events that the recorder described at run time.
pub(super) const FIRST_GENERIC: u32 = 65536;

/// The maximum numbers of kinds, CPUs and names, so that memory is bounded for any input.
const MAX_KINDS: usize = 1 << 12;
const MAX_CPUS: usize = 1 << 14;
const MAX_NAMES: usize = 1 << 10;

/// `DescriptorProto.name`.
const DESCRIPTOR_NAME: u32 = 1;

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
        bundle: &FtraceEventBundleView<'_>,
        around: &mut Around<'_>,
    ) {
        self.parse_errors += bundle.error.len() as u64;
        self.foreign_clock |= bundle.ftrace_clock.unwrap_or(0) != 0;
        // Descriptions follow the events.
        for descriptor in bundle.generic_event_descriptors {
            self.description((machine, sequence), descriptor);
        }
        let cpu = (machine, bundle.cpu.unwrap_or(0));
        let mut is_after_gap = bundle.lost_events.unwrap_or(false);
        if is_after_gap {
            around.sched.gap(cpu.0, cpu.1);
            bump(&mut self.gaps, cpu, 1, MAX_CPUS);
        }
        let shown_from = around.times.kernel_start(machine);
        let mut shown: Option<(u64, u64)> = None;
        // Compact switches and other events are read in the order of time: a switch that does not
        // continue the compact ones is among the others.
        let header = around.header;
        let columns = CompactSched::read(bundle.compact_sched.unwrap_or_default());
        let rows = columns.rows(CompactKind::Switches).take(MAX_COMPACT);
        let (mut rows, mut seen) = (rows.peekable(), Compact::default());
        let is_known = around.times.is_known(cpu);
        if !is_known && bundle.compact_sched.is_some() {
            around.times.compact(cpu, &columns, &header);
        }
        for event in bundle.event {
            if rows.peek().is_some() {
                let time = Fields::find(ftrace_event::TIMESTAMP, event);
                let until = time.and_then(|time| time.as_u64()).unwrap_or(0);
                let until = (&header, header.to_boot(until));
                around
                    .sched
                    .compact(around.threads, cpu, &mut rows, until, &mut seen);
            }
            let Some(time) = self.event(cpu, sequence, event, around) else {
                continue;
            };
            if std::mem::take(&mut is_after_gap) {
                self.gap_until(cpu, time);
            }
            if time >= shown_from {
                let (low, high) = shown.unwrap_or((time, time));
                shown = Some((low.min(time), high.max(time)));
            }
        }
        let rest = (&header, u64::MAX);
        around
            .sched
            .compact(around.threads, cpu, &mut rows, rest, &mut seen);
        seen.wakings(&columns, &header);
        if let Some((first, last)) = seen.times {
            if is_known {
                around.times.kernel(cpu.0, first, last);
            }
            if is_after_gap {
                self.gap_until(cpu, first);
            }
        }
        let events = &mut self.events;
        bump(events, ftrace_event::SCHED_SWITCH, seen.switches, MAX_KINDS);
        bump(events, ftrace_event::SCHED_WAKING, seen.wakings, MAX_KINDS);
        if let Some((first, last)) = shown {
            around.times.kernel(machine, first, last);
        }
    }

    /// Ends the activities of a CPU before the first event after a gap.
    fn gap_until(&mut self, cpu: (u32, u32), time: u64) {
        if let Some(activity) = &mut self.activity {
            activity.gap(cpu.0, time.saturating_sub(1));
        }
    }

    /// Reads a `FtraceEvent`, and returns its time.
    fn event(
        &mut self,
        cpu: (u32, u32),
        sequence: u32,
        event: &[u8],
        around: &mut Around<'_>,
    ) -> Option<u64> {
        let (mut at, mut pid, mut kind, mut body) = (None, 0, None, None);
        for field in Fields::new(event).map_while(Result::ok) {
            match field.number {
                ftrace_event::TIMESTAMP => at = field.as_u64(),
                ftrace_event::PID => pid = field.as_u64().unwrap_or(0) as i32,
                ftrace_event::COMMON_FLAGS => {}
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
        if kind != Some(ftrace_event::SCHED_SWITCH) {
            sched.event(cpu, at, pid);
        }
        match (kind, body) {
            (Some(ftrace_event::SCHED_SWITCH), Some(body)) => {
                let switch = SchedSwitchFtraceEventView::read(body);
                let next = switch.next_pid.unwrap_or(0);
                sched.switch(threads, cpu, at, (switch.prev_pid, next));
                if !around.times.is_known(cpu) {
                    around.times.switch(cpu, at);
                }
                if let Some(comm) = switch.next_comm {
                    threads.set_comm(cpu.0, at, next, comm);
                }
            }
            (Some(ftrace_event::TASK_NEWTASK), Some(body)) => {
                threads.new_task(cpu.0, at, pid, body);
            }
            (Some(ftrace_event::TASK_RENAME), Some(body)) => {
                let rename = TaskRenameFtraceEventView::read(body);
                if let Some(comm) = rename.newcomm {
                    // A thread can rename another one of its process.
                    threads.set_comm(cpu.0, at, rename.pid.unwrap_or(pid), comm);
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
        Some(at)
    }

    /// Reads a `GenericEventDescriptor`, which precedes the events that it describes.
    fn description(&mut self, (machine, sequence): (u32, u32), bytes: &[u8]) {
        let description = GenericEventDescriptorView::read(bytes);
        let descriptor = description.event_descriptor.unwrap_or_default();
        let name = Fields::find(DESCRIPTOR_NAME, descriptor).and_then(|name| name.as_bytes());
        let number = description.field_id.and_then(|id| u32::try_from(id).ok());
        if let (Some(number), Some(name)) = (number, name)
            && number >= FIRST_GENERIC
            && self.descriptions.len() < MAX_KINDS
        {
            let key = (machine, sequence, number);
            let probe = ProbeEvent::read(descriptor);
            let mut event = Described {
                group: printable(description.group_name.unwrap_or_default()),
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
        let stats = FtraceStatsView::read(bytes);
        for cpu in stats.cpu_stats {
            let (number, lost, read_at) = read_cpu(cpu);
            let side = match stats.phase.unwrap_or(phase::UNSPECIFIED) {
                phase::START_OF_TRACE => &mut self.start,
                phase::END_OF_TRACE => &mut self.end,
                _ => continue,
            };
            if side.len() < MAX_CPUS {
                side.insert((machine, number), lost);
            }
            if machine == 0 && stats.phase == Some(phase::END_OF_TRACE) {
                self.end_at = self.end_at.max(read_at);
            }
        }
        let unknown = stats.unknown_ftrace_events.iter();
        for name in unknown.chain(stats.failed_ftrace_events) {
            let name = printable(name);
            if self.missing.len() < MAX_NAMES && !self.missing.contains(&name) {
                self.missing.push(name);
            }
        }
        if let Some(pages) = stats.cpu_buffer_size_pages {
            self.buffer_pages = pages.into();
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
            let source = format!("kernel buffer of {}", list_cpus(&cpus));
            let amount = format!(
                "{} overwritten before they were read",
                counted(events, "event")
            );
            let advice = advice.clone();
            losses.push(Loss {
                cause: Cause::KernelBuffer,
                source,
                amount,
                advice,
            });
        } else if !self.gaps.is_empty() {
            let cpus: Vec<u32> = self.gaps.keys().map(|cpu| cpu.1).collect();
            let gaps = self
                .gaps
                .values()
                .fold(0u64, |sum, n| sum.saturating_add(*n));
            let source = format!("kernel buffer of {}", list_cpus(&cpus));
            let amount = counted(gaps, "gap");
            losses.push(Loss {
                cause: Cause::KernelBuffer,
                source,
                amount,
                advice,
            });
        }
        if self.parse_errors > 0 {
            losses.push(Loss {
                cause: Cause::KernelParse,
                source: "kernel buffer".to_owned(),
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
    let cpu = FtraceCpuStatsView::read(bytes);
    // Overwritten, failed to commit, and dropped because a buffer without overwriting was full.
    let lost = [cpu.overrun, cpu.commit_overrun, cpu.dropped_events];
    let lost = lost.into_iter().flatten().fold(0, u64::saturating_add);
    // Seconds; the conversion saturates.
    let read_at = cpu.now_ts.map(|seconds| (seconds * 1e9) as u64);
    (cpu.cpu.unwrap_or(0) as u32, lost, read_at)
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
