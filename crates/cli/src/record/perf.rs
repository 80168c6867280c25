//! The data sources that `ferretto record --perf` and `--off-cpu` add to a recording.

use std::path::Path;

use anyhow::{Result, bail};
use ferretto_perf::event::Scope;
use ferretto_perf::{LINUX_PERF, OFF_CPU};
use ferretto_proto::perf_event_config::{CallstackSampling, Scope as TargetScope};
use ferretto_proto::perf_events::{Counter, Timebase, Tracepoint, timebase};
use ferretto_proto::trace_config::{BufferConfig, DataSource, ProducerConfig};
use ferretto_proto::{DataSourceConfig, Message, MessageField, PerfEventConfig, TraceConfig};

use super::args::RecordArgs;

/// Name of the producer, ours and upstream's.
const PROFILER: &str = "perfetto.traced_perf";
/// Central buffer of the samples, which holds what comes between two writes to the file.
const BUFFER_KB: u32 = 64 << 10;
/// Shared memory of the profiler. Holds what comes while the service is busy.
const SHARED_MEMORY_KB: u32 = 8 << 10;
/// The period at which the kernel's rings are read, in milliseconds.
const READ_PERIOD_MS: u32 = 50;
/// Waits of one thread that are recorded each second, at most. Threads that wait for each other may
/// do so 100,000 times a second, and nobody could keep up with their callstacks.
const MAX_WAITS_HZ: u64 = 2000;
/// The file that describes the tracepoint of context switches, for those who may see it.
const SCHED_SWITCH: &str = "/sys/kernel/tracing/events/sched/sched_switch/id";

/// Checks the options against each other and the machine.
pub(super) fn check(args: &RecordArgs) -> Result<()> {
    if !args.profiles() {
        if !args.pids.is_empty() && args.heap.is_none() {
            bail!("-p says whose callstacks to record; give --perf, --off-cpu or --heap with it");
        }
        return gone(args);
    }
    if args.config.is_some() {
        bail!(
            "--perf and --off-cpu go with the default config; in one of your own, add the data source \
             {LINUX_PERF} (record --perf --print-config shows how)"
        );
    }
    gone(args)
}

/// Checks that processes that were asked for are there.
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

/// Adds the data sources that were asked for.
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
        args.perf.map(running),
        args.off_cpu
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

/// Switches to other threads, by the tracepoint or, where that may not be seen, by the counter. Of
/// threads that switch more often than [`MAX_WAITS_HZ`] the kernel picks some, each of which stands
/// for those between.
fn waiting(has_tracepoint: bool) -> Timebase {
    let event = match has_tracepoint {
        true => timebase::Event::Tracepoint(Box::new(Tracepoint {
            name: Some("sched:sched_switch".into()),
            ..Default::default()
        })),
        false => timebase::Event::Counter(Counter::SW_CONTEXT_SWITCHES),
    };
    Timebase {
        interval: Some(timebase::Interval::Frequency(MAX_WAITS_HZ)),
        event: Some(event),
        name: Some(OFF_CPU.into()),
        ..Default::default()
    }
}

/// Returns whose callstacks are recorded: those of the command, which waits to be let go, those of
/// processes, or all.
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
