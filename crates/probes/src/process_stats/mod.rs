//! `linux.process_stats`: processes and threads, and their resources.

mod counters;
mod descriptions;
mod tree;

use std::collections::{HashMap, HashSet};

use ferretto_metatrace::Event as Activity;
use ferretto_proto::fields::{process_stats, process_tree, trace_packet};
use ferretto_proto::process_stats_config::Quirks;
use ferretto_proto::{ProcessStatsConfig, decode_lazy};
use ferretto_wire::Encoder;

use crate::PacketSink;
use crate::clock::boottime_ns;
use crate::ftrace::Metadata;
use crate::procfs::Proc;
use crate::source::{DataSource, Kind};
use counters::Cached;
use descriptions::Descriptions;

/// Name of the process data source.
pub const PROCESS_STATS: &str = "linux.process_stats";

/// Shortest polling period, milliseconds.
const MIN_POLL_MS: u32 = 100;

/// A `linux.process_stats` data source.
#[derive(Debug)]
pub struct ProcessStats {
    proc: Proc,
    options: Options,
    /// The thread ids that have been described, and their processes.
    seen: HashMap<i32, i32>,
    descriptions: Descriptions,
    cache: HashMap<i32, Cached>,
    /// Processes that never have memory.
    kernel_threads: HashSet<i32>,
    /// Other processes that had no memory counters.
    without_memory: HashSet<i32>,
    polls_since_clear: u32,
    state_cleared: bool,
    ticks_per_second: u64,
    sink: Box<dyn PacketSink>,
}

#[derive(Debug, Clone, Copy)]
struct Options {
    on_demand: bool,
    scan_at_start: bool,
    thread_names: bool,
    poll_ms: u32,
    polls_per_clear: u32,
    fds: bool,
    smaps: bool,
    age: bool,
    runtime: bool,
    dmabuf: bool,
    main_thread: bool,
}

impl Options {
    fn new(config: &ProcessStatsConfig) -> Self {
        let on = |field: Option<bool>| field.unwrap_or(false);
        let poll_ms = match config.proc_stats_poll_ms.unwrap_or(0) {
            0 => 0,
            period => period.max(MIN_POLL_MS),
        };
        let ttl = config.proc_stats_cache_ttl_ms.unwrap_or(0);
        Self {
            on_demand: !config.quirks.contains(&Quirks::DISABLE_ON_DEMAND),
            scan_at_start: on(config.scan_all_processes_on_start),
            thread_names: on(config.record_thread_names),
            poll_ms,
            polls_per_clear: ttl.checked_div(poll_ms).unwrap_or(0).max(1),
            fds: on(config.resolve_process_fds),
            smaps: on(config.scan_smaps_rollup),
            age: on(config.record_process_age),
            runtime: on(config.record_process_runtime),
            dmabuf: on(config.record_process_dmabuf_rss),
            main_thread: !on(config.skip_main_thread_message),
        }
    }
}

impl DataSource for ProcessStats {
    /// Describes every process if the config requests it.
    fn start(&mut self) {
        if self.options.scan_at_start {
            self.scan_all();
        }
    }

    fn poll_period_ms(&self) -> Option<u32> {
        (self.options.poll_ms > 0).then_some(self.options.poll_ms)
    }

    fn poll(&mut self) {
        self.read_counters();
    }

    fn flush(&mut self) {
        self.sink.flush();
    }

    fn clear_incremental_state(&mut self) {
        self.seen.clear();
        self.descriptions.age();
        self.without_memory.clear();
        self.cache.clear();
        self.polls_since_clear = 0;
        self.state_cleared = true;
    }

    fn on_metadata(&mut self, metadata: &Metadata) {
        self.on_ended(metadata.ended());
        self.on_renamed(metadata.renamed());
        self.on_pids(metadata.pids());
        self.on_fds(metadata.fds());
    }
}

impl ProcessStats {
    pub(crate) const KIND: Kind = Kind {
        name: PROCESS_STATS,
        create: |config, sink, _| {
            let config = decode_lazy(&config.process_stats_config)?;
            Ok(Box::new(Self::new(&config, sink)))
        },
        starting: Some(Activity::PsWriteAllProcesses),
        polling: Some(Activity::PsWriteAllProcessStats),
        on_metadata: Some(Activity::PsOnPids),
        has_incremental_state: true,
    };

    /// Creates a data source that reads the `/proc` of this process.
    pub fn new(config: &ProcessStatsConfig, sink: Box<dyn PacketSink>) -> Self {
        Self::with_root("/proc", config, sink)
    }

    /// Creates a data source that reads another `/proc`, for example of another pid namespace.
    pub fn with_root(
        root: impl Into<std::path::PathBuf>,
        config: &ProcessStatsConfig,
        sink: Box<dyn PacketSink>,
    ) -> Self {
        Self {
            proc: Proc::new(root),
            options: Options::new(config),
            seen: HashMap::new(),
            descriptions: Descriptions::default(),
            cache: HashMap::new(),
            kernel_threads: HashSet::new(),
            without_memory: HashSet::new(),
            polls_since_clear: 0,
            state_cleared: true,
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            sink,
        }
    }

    /// Describes those of `pids` that have not been described yet. Called with the ids in kernel
    /// events.
    pub fn on_pids(&mut self, pids: &[i32]) {
        if self.options.on_demand {
            self.describe(pids);
        }
    }

    /// Forgets the descriptions of renamed tasks.
    pub fn on_renamed(&mut self, pids: &[i32]) {
        for pid in pids {
            self.descriptions.remove(*pid);
            if self.options.on_demand {
                self.seen.remove(pid);
            }
        }
    }

    /// Forgets what is known of ended tasks: their ids can be reused.
    pub fn on_ended(&mut self, pids: &[i32]) {
        for pid in pids {
            self.descriptions.end(*pid);
            self.kernel_threads.remove(pid);
        }
    }

    /// Records the files behind newly opened descriptors.
    pub fn on_fds(&mut self, fds: &[(i32, u64)]) {
        if !self.options.fds {
            return;
        }
        let started = boottime_ns();
        let mut message = Vec::new();
        for &(tid, fd) in fds {
            // The descriptors of an unknown thread are found by the next poll.
            let Some(&pid) = self.seen.get(&tid) else {
                continue;
            };
            let mut process = Vec::new();
            self.write_fd(pid, fd, &mut process);
            push_process(pid, &process, &mut message);
        }
        self.finish_stats(started, message);
    }

    fn finish_tree(&mut self, started: u64, mut tree: Vec<u8>) {
        if !tree.is_empty() {
            let mut out = Encoder::new(&mut tree);
            out.varint(process_tree::COLLECTION_END_TIMESTAMP, boottime_ns());
            self.write_packet(started, trace_packet::PROCESS_TREE, &tree);
        }
    }

    fn finish_stats(&mut self, started: u64, mut stats: Vec<u8>) {
        if !stats.is_empty() {
            let mut out = Encoder::new(&mut stats);
            out.varint(process_stats::COLLECTION_END_TIMESTAMP, boottime_ns());
            self.write_packet(started, trace_packet::PROCESS_STATS, &stats);
        }
    }

    fn write_packet(&mut self, timestamp: u64, field: u32, message: &[u8]) {
        let cleared = std::mem::take(&mut self.state_cleared);
        let packet = ferretto_wire::encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, timestamp);
            if cleared {
                packet.bool(trace_packet::INCREMENTAL_STATE_CLEARED, true);
            }
            packet.bytes(field, message);
        });
        self.sink.write_packet(&packet);
    }
}

/// Adds the data of one process, if there is any.
fn push_process(pid: i32, fields: &[u8], message: &mut Vec<u8>) {
    if fields.is_empty() {
        return;
    }
    Encoder::new(message).nested(process_stats::PROCESSES, |process| {
        process.int(process_stats::process::PID, pid.into());
        process.raw(fields);
    });
}
