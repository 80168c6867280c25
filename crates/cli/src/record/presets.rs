//! Presets: named sets of data sources of a machine, for recordings without a config.

use std::collections::HashSet;

use anyhow::{Result, bail};
use clap::Args;
use ferretto_format::kernel_names::Architecture;
use ferretto_format::pattern::is_like;
use ferretto_probes::ftrace::{DynamicEvent, dynamic_names, kernel_events};
use ferretto_proto::SysStatsConfig;
use ferretto_proto::sys_stats_config::StatCounters;

use super::dynamic;
use super::sources::nearest;
use ferretto_text::terminal::shown;

/// Events that name new processes and threads. They are rare, so all presets include them.
const NAMES: &[&str] = &[
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "sched/sched_process_free",
    "task/task_newtask",
    "task/task_rename",
    "power/suspend_resume",
];
const SCHED: &[&str] = &[
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
];
const SYSCALLS: &[&str] = &["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];
const IO: &[&str] = &[
    "block/block_bio_queue",
    "block/block_rq_insert",
    "block/block_rq_issue",
    "block/block_rq_complete",
    "block/block_rq_error",
    "block/block_rq_requeue",
    "block/block_io_start",
    "block/block_io_done",
    "ext4/ext4_sync_file_enter",
    "ext4/ext4_sync_file_exit",
    "f2fs/f2fs_sync_file_enter",
    "f2fs/f2fs_sync_file_exit",
    "jbd2/jbd2_start_commit",
    "jbd2/jbd2_end_commit",
    "filemap/mm_filemap_add_to_page_cache",
    "filemap/mm_filemap_delete_from_page_cache",
    "writeback/writeback_start",
    "writeback/writeback_written",
];
const NET: &[&str] = &[
    "net/net_dev_queue",
    "net/net_dev_xmit",
    "net/netif_receive_skb",
    "napi/napi_poll",
    "skb/kfree_skb",
    "sock/inet_sock_set_state",
    "sock/sock_rcvqueue_full",
    "tcp/tcp_retransmit_skb",
    "tcp/tcp_send_reset",
    "tcp/tcp_receive_reset",
    "udp/udp_fail_queue_rcv_skb",
];
/// The events of messages that programs write to `trace_marker`, and that the kernel writes with
/// `trace_printk`.
const MARKERS: [&str; 3] = ["ftrace/print", "ftrace/bprint", "ftrace/bputs"];
/// The event for a change of a process's memory.
const RSS_STAT: &str = "kmem/rss_stat";
/// Without page faults, of which a busy machine has hundreds of thousands a second. They are
/// counted by counters.
const MEMORY: &[&str] = &[
    RSS_STAT,
    "oom/mark_victim",
    "oom/oom_score_adj_update",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_kswapd_sleep",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
    "huge_memory/mm_collapse_huge_page",
];
const IRQ: &[&str] = &[
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_raise",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
    "ipi/ipi_entry",
    "ipi/ipi_exit",
    "workqueue/workqueue_execute_start",
    "workqueue/workqueue_execute_end",
];
/// The interrupts that end waits, and that take time from the threads of a CPU.
const WHY: &[&str] = &[
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
];
const FREQ: &[&str] = &[
    "power/cpu_frequency",
    "power/cpu_frequency_limits",
    "power/cpu_idle",
    "thermal/thermal_temperature",
    "thermal/thermal_zone_trip",
    "thermal/cdev_update",
];

/// The period of counters in milliseconds.
const PERIOD_MS: u32 = 1000;
/// The period of a preset's main counters.
const SHORT_PERIOD_MS: u32 = 100;

/// The presets of the command line.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recorded data (default: --sched)")]
#[group(id = "presets", multiple = true, conflicts_with = "config")]
pub(crate) struct Presets {
    /// Scheduling of all CPUs: running threads and wake-ups; CPU, memory and disk counters
    #[arg(long)]
    sched: bool,
    /// All that ferretto why can use: scheduling, system calls and interrupts of all CPUs, and
    /// callstacks of the COMMAND or the processes of -p: --perf=499 --off-cpu
    #[arg(long)]
    why: bool,
    /// System calls, all or some of them, such as --syscalls=read,futex
    #[arg(
        long,
        value_name = "NAMES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    syscalls: Option<Vec<String>>,
    /// Disk requests, syncs, page cache, disk counters
    #[arg(long)]
    io: bool,
    /// Packets sent, received and dropped, socket states, TCP retransmits
    #[arg(long)]
    net: bool,
    /// Changes of the memory of processes, reclaim, compaction, out of memory; counters of memory
    /// and page faults
    #[arg(long)]
    memory: bool,
    /// Interrupts, soft interrupts, timers, work queues
    #[arg(long)]
    irq: bool,
    /// Frequencies and idle states of CPUs, temperatures
    #[arg(long)]
    freq: bool,
    /// Counters of a control group: a unit such as nginx.service, or a path with wildcards * and ?,
    /// such as '/system.slice/*'. Without this option, those of containers are recorded
    ///
    /// With --perf, --off-cpu, --why, --heap or --syscalls, also selects its processes, like -p.
    #[arg(long = "cgroup", value_name = "NAME", value_delimiter = ',')]
    cgroups: Vec<String>,
    /// Counters of a container, by its identifier (12 digits suffice), or of a pod; selects its
    /// processes like --cgroup
    #[arg(long = "container", value_name = "ID", value_delimiter = ',')]
    containers: Vec<String>,
    /// Kernel events by name, such as sched/sched_stat_runtime, with wildcards * and ?; '*' for all
    #[arg(long = "event", value_name = "GROUP/NAME")]
    events: Vec<String>,
    /// Calls of a function of a program or library, such as /bin/bash:readline, or of an offset in
    /// the file, such as /bin/bash:0x1c40; with the suffix %return, its returns
    #[arg(long = "uprobe", value_name = "PATH:FUNCTION")]
    uprobes: Vec<String>,
    /// Calls of a kernel function; with the suffix %return, its returns
    #[arg(long = "kprobe", value_name = "FUNCTION")]
    kprobes: Vec<String>,
}

/// The events and counters of presets on this machine.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    /// Kernel events, `group/name`.
    pub(super) events: Vec<String>,
    /// System calls to record, `sys_name`; empty for all if their events are enabled.
    pub(super) syscalls: Vec<String>,
    /// The counters of the system.
    pub(super) counters: SysStatsConfig,
    /// The period of reading the memory of processes in milliseconds.
    pub(super) memory_period_ms: u32,
    /// True if changes of the memory of processes are recorded only above a size.
    pub(super) throttles_memory: bool,
    /// True if there may be millions of events a second.
    pub(super) is_heavy: bool,
}

impl Presets {
    /// Returns the equivalent arguments.
    pub(super) fn words(&self) -> Vec<String> {
        let flags = [
            (self.sched, "--sched"),
            (self.why, "--why"),
            (self.io, "--io"),
            (self.net, "--net"),
            (self.memory, "--memory"),
            (self.irq, "--irq"),
            (self.freq, "--freq"),
        ];
        let flags = flags.into_iter().filter(|(given, _)| *given);
        let mut words: Vec<String> = flags.map(|(_, flag)| flag.to_owned()).collect();
        if let Some(names) = &self.syscalls {
            words.push(match names.join(",") {
                names if names.is_empty() => "--syscalls".to_owned(),
                names => format!("--syscalls={names}"),
            });
        }
        words.extend(self.cgroups.iter().map(|name| format!("--cgroup={name}")));
        words.extend(
            self.containers
                .iter()
                .map(|name| format!("--container={name}")),
        );
        words.extend(self.events.iter().map(|name| format!("--event={name}")));
        words.extend(
            self.uprobes
                .iter()
                .map(|location| format!("--uprobe={location}")),
        );
        words.extend(
            self.kprobes
                .iter()
                .map(|location| format!("--kprobe={location}")),
        );
        words
    }

    /// Returns the names of the control groups and containers.
    pub(super) fn groups(&self) -> Vec<String> {
        self.cgroups
            .iter()
            .chain(&self.containers)
            .cloned()
            .collect()
    }

    /// Returns true if something is requested that only kernel events can tell. The counters of
    /// disks, memory and frequencies are readable by everybody.
    pub(super) fn need_kernel_events(&self) -> bool {
        let system_calls = self.want_system_calls();
        let presets = [self.sched, self.net, self.irq, system_calls];
        presets.contains(&true) || self.names_events()
    }

    fn names_events(&self) -> bool {
        let lists = [&self.events, &self.uprobes, &self.kprobes];
        lists.iter().any(|list| !list.is_empty())
    }

    /// Returns true if messages that programs or the kernel write into the trace are requested by
    /// name. These only reach the top level of tracefs.
    pub(super) fn want_markers(&self) -> bool {
        let all: Vec<String> = MARKERS.iter().map(|&name| name.to_owned()).collect();
        let patterns = self.events.iter().filter(|pattern| *pattern != "*");
        let is_marker = |pattern: &String| matching(pattern, &all).is_ok();
        patterns.into_iter().any(is_marker)
    }

    /// Returns true if system calls are requested.
    pub(super) fn want_system_calls(&self) -> bool {
        self.syscalls.is_some() || self.why
    }

    /// Returns true if all that `ferretto why` can use is requested.
    pub(super) fn want_why(&self) -> bool {
        self.why
    }

    fn is_default(&self) -> bool {
        let flags = [
            self.sched,
            self.io,
            self.net,
            self.memory,
            self.irq,
            self.freq,
        ];
        !flags.contains(&true) && !self.want_system_calls() && !self.names_events()
    }

    /// Returns the kernel events to create for the recording.
    ///
    /// # Errors
    ///
    /// Fails if a program has no such function.
    pub(super) fn dynamic(&self) -> Result<Vec<DynamicEvent>> {
        dynamic::events(&self.uprobes, &self.kprobes)
    }

    /// Returns the content of a recording, including events created for it. Leaves out events of
    /// presets that this kernel lacks.
    ///
    /// # Errors
    ///
    /// Fails if this machine lacks a named event, or all events of a preset.
    pub(super) fn content(&self, dynamic: &[DynamicEvent]) -> Result<Content> {
        let known = kernel_events();
        let sched = self.sched || self.why || self.is_default();
        let presets = [
            (sched, "--sched", SCHED),
            (self.want_system_calls(), "--syscalls", SYSCALLS),
            (self.why, "--why", WHY),
            (self.io, "--io", IO),
            (self.net, "--net", NET),
            (self.memory, "--memory", MEMORY),
            (self.irq, "--irq", IRQ),
            (self.freq, "--freq", FREQ),
        ];
        let mut events = Vec::new();
        for (_, flag, of_preset) in presets.into_iter().filter(|(selected, ..)| *selected) {
            let before = events.len();
            events.extend(existing(of_preset, &known));
            if events.len() == before {
                bail!("this kernel has none of the events of {flag}");
            }
        }
        events.extend(existing(NAMES, &known));
        // Each change of memory is recorded if the event is named.
        let mut has_rss_stat = false;
        for pattern in &self.events {
            let found = matching(pattern, &known)?;
            has_rss_stat |= found.iter().any(|event| event == RSS_STAT);
            events.extend(found);
        }
        events.extend(dynamic_names(dynamic));
        let mut seen = HashSet::new();
        events.retain(|event| seen.insert(event.clone()));
        let names = self.syscalls.iter().flatten();
        let syscalls = names
            .filter(|name| !name.is_empty())
            .map(|name| system_call(name));
        Ok(Content {
            events,
            syscalls: syscalls.collect::<Result<_>>()?,
            counters: self.counters(sched),
            memory_period_ms: if self.memory {
                SHORT_PERIOD_MS
            } else {
                PERIOD_MS
            },
            throttles_memory: self.memory && !has_rss_stat,
            is_heavy: self.want_system_calls() || self.events.iter().any(|name| name.contains('*')),
        })
    }

    fn counters(&self, sched: bool) -> SysStatsConfig {
        let period = |short: bool, long: bool| match (short, long) {
            (true, _) => Some(SHORT_PERIOD_MS),
            (false, true) => Some(PERIOD_MS),
            (false, false) => None,
        };
        let groups = self.groups();
        let mut stat_counters = Vec::new();
        if sched {
            stat_counters = vec![StatCounters::STAT_CPU_TIMES, StatCounters::STAT_FORK_COUNT];
        }
        if self.irq {
            stat_counters.push(StatCounters::STAT_IRQ_COUNTS);
            stat_counters.push(StatCounters::STAT_SOFTIRQ_COUNTS);
        }
        SysStatsConfig {
            meminfo_period_ms: period(self.memory, sched),
            vmstat_period_ms: period(self.memory, sched || self.io),
            stat_period_ms: period(false, !stat_counters.is_empty()),
            stat_counters,
            cpufreq_period_ms: period(self.freq, sched),
            cpuidle_period_ms: period(self.freq, false),
            thermal_period_ms: period(false, self.freq),
            diskstat_period_ms: period(self.io, sched),
            psi_period_ms: period(self.io || self.memory, sched),
            cgroup_period_ms: period(!groups.is_empty(), sched || self.memory || self.io),
            cgroup_paths: groups.into_iter().map(String::into_bytes).collect(),
            ..Default::default()
        }
    }
}

/// Returns the events of a preset that this kernel has; all if unknown.
fn existing(events: &[&str], known: &[String]) -> Vec<String> {
    let events = events.iter().map(|event| (*event).to_owned());
    events
        .filter(|event| known.is_empty() || known.binary_search(event).is_ok())
        .collect()
}

/// Returns the events that match a name of the command line.
fn matching(pattern: &str, known: &[String]) -> Result<Vec<String>> {
    let of_file: &[&str] = match pattern {
        "trace_marker" => &MARKERS[..1],
        "trace_printk" => &MARKERS,
        _ => &[],
    };
    if !of_file.is_empty() {
        return Ok(of_file.iter().map(|&name| name.to_owned()).collect());
    }
    if known.is_empty() {
        // If tracefs is not readable, this is reported before the recording.
        return Ok(vec![pattern.to_owned()]);
    }
    let names: Vec<&String> = if pattern.contains('/') {
        known
            .iter()
            .filter(|event| is_like(pattern, event))
            .collect()
    } else {
        let like = |event: &&String| is_like(pattern, name_of(event));
        known.iter().filter(like).collect()
    };
    let found: Vec<String> = names.into_iter().cloned().collect();
    if found.is_empty() {
        let advice = match nearest_event(pattern, known) {
            Some(near) => format!("did you mean {near}?"),
            None => "available_events in tracefs lists all events".to_owned(),
        };
        bail!("this kernel has no event {:?}; {advice}", shown(pattern));
    }
    Ok(found)
}

/// Returns the most similar event, or all events of the most similar group.
fn nearest_event(pattern: &str, known: &[String]) -> Option<String> {
    let all = || known.iter().map(String::as_str);
    if let Some((group, _)) = pattern.split_once('/') {
        let groups = || all().filter_map(|event| Some(event.split_once('/')?.0));
        return nearest(pattern, all())
            .map(str::to_owned)
            .or_else(|| Some(format!("{}/*", nearest(group, groups())?)));
    }
    let near = nearest(pattern, all().map(name_of))?;
    all()
        .find(|event| name_of(event) == near)
        .map(str::to_owned)
}

fn name_of(event: &str) -> &str {
    event.split_once('/').map_or(event, |(_, name)| name)
}

/// Returns the name of a system call in configs.
fn system_call(name: &str) -> Result<String> {
    let Some(architecture) = Architecture::own() else {
        bail!(
            "the system calls of this architecture have no known names; use --syscalls without names"
        );
    };
    let bare = name.strip_prefix("sys_").unwrap_or(name);
    let known: Vec<&str> = architecture
        .system_calls()
        .map(|(known, _)| known)
        .collect();
    if known.contains(&bare) {
        return Ok(format!("sys_{bare}"));
    }
    match nearest(bare, known.into_iter()) {
        Some(near) => bail!(
            "unknown system call {:?}; did you mean {near}?",
            shown(name)
        ),
        None => bail!("unknown system call {:?}", shown(name)),
    }
}
