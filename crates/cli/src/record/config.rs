//! The default config of `ferretto record`.

use ferretto_proto::trace_config::{BufferConfig, DataSource, ProducerConfig};
use ferretto_proto::{
    DataSourceConfig, FtraceConfig, Message, MessageField, ProcessStatsConfig, SysStatsConfig,
    TraceConfig, TrackEventConfig,
};

use super::presets::Content;

/// The indices of buffers in the config.
const KERNEL_BUFFER: u32 = 0;
const SYSTEM_BUFFER: u32 = 1;
const APP_BUFFER: u32 = 2;

/// The name of the producer of the system's data sources, as in upstream.
const PROBES: &str = "perfetto.traced_probes";

/// The period of writing buffers to the file in milliseconds. It is short to keep buffers small.
const FILE_WRITE_PERIOD_MS: u32 = 500;
/// The period of draining the kernel's buffers in milliseconds.
const KERNEL_DRAIN_PERIOD_MS: u32 = 100;
/// The size of the kernel buffer of each CPU. It holds 250 ms of the heaviest scheduling seen in
/// practice, about a million events per second on a CPU, of about 32 bytes each.
const KERNEL_BUFFER_PER_CPU_KB: u32 = 8192;
/// The number of CPUs above which kernel buffers are halved, since load is spread.
const MANY_CPUS: u32 = 32;

/// Returns the config of presets: their kernel events and counters, names of processes and threads,
/// memory of processes, and track events of programs, streamed into the file. Buffers are large
/// enough for a fully loaded machine with `cpus` CPUs. Kernel events come from the tracefs instance
/// `instance`, or from the top level.
pub(super) fn of_presets(content: Content, cpus: u32, instance: Option<&str>) -> TraceConfig {
    let cpus = cpus.max(1);
    let buffer = |name: &str, size_kb: u32| BufferConfig {
        size_kb: Some(size_kb),
        name: Some(name.into()),
        ..Default::default()
    };
    // A central buffer holds the data between two writes to the file.
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

/// All categories except costly ones. A config without categories is ambiguous: for Perfetto's C
/// library, and thus for its Rust library, it enables none.
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
