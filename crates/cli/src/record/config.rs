//! The config of `ferretto record` when none is given.

use ferretto_proto::trace_config::{BufferConfig, DataSource, ProducerConfig};
use ferretto_proto::{
    DataSourceConfig, FtraceConfig, Message, MessageField, ProcessStatsConfig, SysStatsConfig,
    TraceConfig, TrackEventConfig,
};

use super::presets::Content;

/// Buffers, in the order of the config.
const KERNEL_BUFFER: u32 = 0;
const SYSTEM_BUFFER: u32 = 1;
const APP_BUFFER: u32 = 2;

/// Name of the producer of the system's data sources, ours and upstream's.
const PROBES: &str = "perfetto.traced_probes";

/// The period at which the buffers are drained into the file, in milliseconds. Short, so that they
/// need not hold much.
const FILE_WRITE_PERIOD_MS: u32 = 500;
/// The period at which the kernel's buffers are drained, in milliseconds.
const KERNEL_DRAIN_PERIOD_MS: u32 = 100;
/// Kernel buffer of each CPU. Holds a quarter of a second of the heaviest scheduling seen in
/// practice, about a million events a second on one CPU at some 32 bytes each.
const KERNEL_BUFFER_PER_CPU_KB: u32 = 8192;
/// On machines with more CPUs than this the kernel buffers are halved; load is spread there.
const MANY_CPUS: u32 = 32;

/// The config that presets stand for: their kernel events and counters, processes and threads with
/// their names, memory of processes, and the track events of programs, streamed into the file.
/// Sized so that a fully loaded machine with `cpus` CPUs loses nothing. Kernel events come from the
/// tracefs instance `instance`, or from its top level.
pub(super) fn of_presets(content: Content, cpus: u32, instance: Option<&str>) -> TraceConfig {
    let cpus = cpus.max(1);
    let buffer = |name: &str, size_kb: u32| BufferConfig {
        size_kb: Some(size_kb),
        name: Some(name.into()),
        ..Default::default()
    };
    // A central buffer holds what comes between two writes to the file.
    let kernel_kb = (32 << 10) + cpus.saturating_mul(2048).min(512 << 10);
    let kernel_kb = kernel_kb << u32::from(content.is_heavy);
    let counters = (content.counters != SysStatsConfig::default())
        .then(|| source(counters(&content.counters)));
    let sources = [
        Some(source(kernel(&content, cpus, instance))),
        Some(source(processes(content.memory_period_ms))),
        counters,
        Some(source(named("linux.system_info", SYSTEM_BUFFER))),
        Some(source(track_events())),
    ];
    TraceConfig {
        buffers: vec![
            buffer("kernel", kernel_kb),
            buffer("system", 16 << 10),
            buffer("apps", 64 << 10),
        ],
        data_sources: sources.into_iter().flatten().collect(),
        producers: vec![ProducerConfig {
            producer_name: Some(PROBES.into()),
            shm_size_kb: Some(16 << 10),
            page_size_kb: Some(32),
            ..Default::default()
        }],
        write_into_file: Some(true),
        file_write_period_ms: Some(FILE_WRITE_PERIOD_MS),
        ..Default::default()
    }
}

fn source(config: DataSourceConfig) -> DataSource {
    DataSource {
        config: MessageField::some(config),
        ..Default::default()
    }
}

fn named(name: &str, buffer: u32) -> DataSourceConfig {
    DataSourceConfig {
        name: Some(name.into()),
        target_buffer: Some(buffer),
        ..Default::default()
    }
}

fn kernel(content: &Content, cpus: u32, instance: Option<&str>) -> DataSourceConfig {
    let size = KERNEL_BUFFER_PER_CPU_KB >> u32::from(cpus > MANY_CPUS);
    let size = size << u32::from(content.is_heavy);
    let bytes = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    DataSourceConfig {
        ftrace_config: Some(
            FtraceConfig {
                ftrace_events: bytes(&content.events),
                syscall_events: bytes(&content.syscalls),
                buffer_size_kb: Some(size),
                drain_period_ms: Some(KERNEL_DRAIN_PERIOD_MS),
                instance_name: instance.map(Into::into),
                throttle_rss_stat: content.throttles_memory.then_some(true),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        ..named("linux.ftrace", KERNEL_BUFFER)
    }
}

fn processes(memory_period_ms: u32) -> DataSourceConfig {
    DataSourceConfig {
        process_stats_config: Some(
            ProcessStatsConfig {
                scan_all_processes_on_start: Some(true),
                record_thread_names: Some(true),
                proc_stats_poll_ms: Some(memory_period_ms),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        ..named("linux.process_stats", SYSTEM_BUFFER)
    }
}

fn counters(counters: &SysStatsConfig) -> DataSourceConfig {
    DataSourceConfig {
        sys_stats_config: Some(counters.encode_to_vec()),
        ..named("linux.sys_stats", SYSTEM_BUFFER)
    }
}

/// Everything but what is tagged as costly. The libraries disagree on what a config that names no
/// category means: for Perfetto's C library, and so for its Rust one, nothing.
fn track_events() -> DataSourceConfig {
    DataSourceConfig {
        track_event_config: Some(
            TrackEventConfig {
                enabled_categories: vec!["*".into()],
                disabled_tags: vec!["slow".into(), "debug".into()],
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        ..named("track_event", APP_BUFFER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn track_events_name_their_categories() {
        let content = Content {
            events: Vec::new(),
            syscalls: Vec::new(),
            counters: SysStatsConfig::default(),
            memory_period_ms: 1000,
            throttles_memory: false,
            is_heavy: false,
        };
        let config = of_presets(content, 2, None);
        let events = config
            .data_sources
            .iter()
            .find_map(|source| source.config.track_event_config.as_ref())
            .expect("track events are recorded");
        let events = TrackEventConfig::decode_from_slice(events).expect("it is a config");
        assert_eq!(events.enabled_categories, [b"*"]);
        assert_eq!(events.disabled_tags, [&b"slow"[..], b"debug"]);
    }
}
