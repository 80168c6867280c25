//! The data sources of `ferretto record --perf`, `--off-cpu` and `--why`.

use std::path::Path;

use anyhow::{Result, bail};
use ferretto_perf::event::Scope;
use ferretto_perf::{LINUX_PERF, OFF_CPU};
use ferretto_proto::perf_event_config::{CallstackSampling, Scope as TargetScope};
use ferretto_proto::perf_events::{Counter, Timebase, Tracepoint, timebase};
use ferretto_proto::trace_config::{BufferConfig, DataSource, ProducerConfig};
use ferretto_proto::{DataSourceConfig, Message, MessageField, PerfEventConfig, TraceConfig};

use super::args::RecordArgs;

/// The name of the producer, as in upstream.
const PROFILER: &str = "perfetto.traced_perf";
/// The central buffer of samples, for the data between two writes to the file.
const BUFFER_KB: u32 = 64 << 10;
/// The shared memory of the profiler, for the data while the service is busy.
const SHARED_MEMORY_KB: u32 = 8 << 10;
/// The period of reading the kernel's rings in milliseconds.
const READ_PERIOD_MS: u32 = 50;
/// The number of waits of a CPU per second above which some have no callstack. Threads that wait
/// for each other may switch 100,000 times per second: callstacks of all would take twice as long
/// as the work. The times of all waits are recorded nevertheless.
const MAX_WAITS_HZ: u64 = 10_000;
/// The kernel's limit of samples per second, which it lowers on slow machines.
const KERNEL_LIMIT: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
/// The file that describes the tracepoint of context switches, if readable.
const SCHED_SWITCH: &str = "/sys/kernel/tracing/events/sched/sched_switch/id";

/// Checks the options against each other and the machine.
pub(super) fn check(args: &RecordArgs) -> Result<()> {
    if !args.profiles() {
        if !args.pids.is_empty() && !args.selects_processes() {
            bail!(
                "-p selects processes for --perf, --off-cpu, --why, --heap or --syscalls; add one of them"
            );
        }
        return gone(args);
    }
    if args.config.is_some() {
        bail!(
            "--perf, --off-cpu and --why need the default config; add the data source {LINUX_PERF} to your own config \
             (see record --perf --print-config)"
        );
    }
    gone(args)
}

/// Checks that the requested processes exist.
fn gone(args: &RecordArgs) -> Result<()> {
    let is_gone = |pid: &&i32| **pid <= 0 || !Path::new(&format!("/proc/{pid}")).exists();
    let gone: Vec<String> = args
        .pids
        .iter()
        .filter(is_gone)
        .map(i32::to_string)
        .collect();
    match gone.as_slice() {
        [] => Ok(()),
        [pid] => bail!("there is no process {pid}"),
        pids => bail!("there are no processes {}", pids.join(", ")),
    }
}

/// Adds the requested data sources.
pub(super) fn add(config: &mut TraceConfig, args: &RecordArgs) {
    if !args.profiles() {
        return;
    }
    let buffer = config.buffers.len() as u32;
    config.buffers.push(BufferConfig {
        size_kb: Some(BUFFER_KB),
        name: Some("callstacks".into()),
        ..Default::default()
    });
    config.producers.push(ProducerConfig {
        producer_name: Some(PROFILER.into()),
        shm_size_kb: Some(SHARED_MEMORY_KB),
        page_size_kb: Some(32),
        ..Default::default()
    });
    let events = [
        args.sampling_rate().map(running),
        args.samples_waits()
            .then(|| waiting(Path::new(SCHED_SWITCH).exists())),
    ];
    for event in events.into_iter().flatten() {
        config.data_sources.push(DataSource {
            config: MessageField::some(DataSourceConfig {
                name: Some(LINUX_PERF.into()),
                target_buffer: Some(buffer),
                perf_event_config: Some(source(event, &args.pids).encode_to_vec()),
                ..Default::default()
            }),
            ..Default::default()
        });
    }
}

fn source(event: Timebase, pids: &[i32]) -> PerfEventConfig {
    PerfEventConfig {
        timebase: MessageField::some(event),
        callstack_sampling: MessageField::some(CallstackSampling {
            scope: MessageField::some(TargetScope {
                target_pid: pids.to_vec(),
                ..Default::default()
            }),
            kernel_frames: Some(true),
            ..Default::default()
        }),
        ring_buffer_read_period_ms: Some(READ_PERIOD_MS),
        ..Default::default()
    }
}

fn running(hz: u32) -> Timebase {
    Timebase {
        interval: Some(timebase::Interval::Frequency(hz.into())),
        event: Some(timebase::Event::Counter(Counter::SW_CPU_CLOCK)),
        ..Default::default()
    }
}

/// Returns the event of context switches: the tracepoint or, without permission, the counter. Above
/// [`MAX_WAITS_HZ`] the kernel samples the switches of a thread.
fn waiting(has_tracepoint: bool) -> Timebase {
    let event = if has_tracepoint {
        timebase::Event::Tracepoint(Box::new(Tracepoint {
            name: Some("sched:sched_switch".into()),
            ..Default::default()
        }))
    } else {
        timebase::Event::Counter(Counter::SW_CONTEXT_SWITCHES)
    };
    let limit = std::fs::read_to_string(KERNEL_LIMIT).ok();
    let limit = limit.and_then(|limit| limit.trim().parse().ok());
    Timebase {
        interval: Some(timebase::Interval::Frequency(
            limit.unwrap_or(MAX_WAITS_HZ).min(MAX_WAITS_HZ),
        )),
        event: Some(event),
        name: Some(OFF_CPU.into()),
        ..Default::default()
    }
}

/// Returns the profiled processes: the held command, those of `-p`, or all.
pub(super) fn scope(args: &RecordArgs, command: Option<i32>) -> Option<Scope> {
    match (command, args.pids.as_slice()) {
        (Some(pid), _) => Some(Scope::Processes {
            pids: vec![pid],
            on_exec: true,
        }),
        (None, []) => None,
        (None, pids) => Some(Scope::Processes {
            pids: pids.to_vec(),
            on_exec: false,
        }),
    }
}

/// Returns the number of data sources of a config that record callstacks.
pub(super) fn sources(config: &TraceConfig) -> usize {
    let names = config.data_sources.iter().map(|source| &source.config.name);
    names
        .filter(|name| name.as_deref() == Some(LINUX_PERF.as_bytes()))
        .count()
}
