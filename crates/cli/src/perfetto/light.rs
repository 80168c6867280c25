//! Configs without a file: `perfetto -t 10s -b 32mb sched/sched_switch`.

use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{
    DataSourceConfig, FtraceConfig, Message, MessageField, SysStatsConfig, TraceConfig,
};

use super::args::Light;

const DEFAULT_TIME: &str = "10s";
const DEFAULT_BUFFER: &str = "32mb";
/// The period of the flushes that make a recording recoverable after a crash, in milliseconds.
const FLUSH_PERIOD_MS: u32 = 30_000;
/// The categories for events of the hypervisor, which has its own tracefs instance.
const HYPERVISOR: [&str; 2] = ["hyp", "hypervisor"];

/// Returns the config for the options.
///
/// # Errors
///
/// Returns the message for an invalid option.
pub(super) fn config(light: &Light) -> Result<TraceConfig, &'static str> {
    let time = time_ms(light.time.as_deref().unwrap_or(DEFAULT_TIME))
        .ok_or("--time argument is invalid")?;
    let buffer = size_bytes(light.buffer.as_deref().unwrap_or(DEFAULT_BUFFER))
        .ok_or("--buffer argument is invalid")?;
    let limit = match &light.size {
        Some(size) => Some(size_bytes(size).ok_or("--size argument is invalid")?),
        None => None,
    };
    let buffer = BufferConfig {
        size_kb: Some((buffer / 1024) as u32),
        ..Default::default()
    };
    Ok(TraceConfig {
        duration_ms: Some(time as u32),
        buffers: vec![buffer],
        data_sources: data_sources(light),
        flush_period_ms: Some(FLUSH_PERIOD_MS),
        write_into_file: limit.map(|_| true),
        max_file_size_bytes: Some(limit.unwrap_or(0)),
        ..Default::default()
    })
}

fn data_sources(light: &Light) -> Vec<DataSource> {
    let mut sources = Vec::new();
    let (mut events, mut categories) = (Vec::new(), Vec::new());
    let mut hypervisors = Vec::new();
    for event in &light.events {
        match event.as_str() {
            name if name.contains('/') => events.push(name.into()),
            name if HYPERVISOR.contains(&name) => hypervisors.push(name),
            name => categories.push(name.into()),
        }
        if event == "gfx" {
            sources.push(source("android.surfaceflinger.frametimeline"));
        }
        if event == "disk" {
            let mut disk = source_config("linux.sys_stats");
            disk.sys_stats_config = Some(
                SysStatsConfig {
                    diskstat_period_ms: Some(1000),
                    ..Default::default()
                }
                .encode_to_vec(),
            );
            sources.push(wrap(disk));
        }
    }
    let apps: Vec<_> = light.apps.iter().map(|app| app.as_str().into()).collect();
    if !events.is_empty() || !categories.is_empty() || !apps.is_empty() {
        let mut kernel = source_config("linux.ftrace");
        kernel.ftrace_config = Some(
            FtraceConfig {
                ftrace_events: events,
                atrace_categories: categories,
                atrace_apps: apps,
                symbolize_ksyms: Some(true),
                ..Default::default()
            }
            .encode_to_vec(),
        );
        sources.push(wrap(kernel));
    }
    for name in hypervisors {
        let mut kernel = source_config("linux.ftrace");
        kernel.ftrace_config = Some(
            FtraceConfig {
                ftrace_events: vec![format!("{name}/*").into()],
                instance_name: Some(name.into()),
                ..Default::default()
            }
            .encode_to_vec(),
        );
        sources.push(wrap(kernel));
    }
    // As in upstream, these two name the default buffer.
    for name in ["linux.process_stats", "linux.system_info"] {
        let mut config = source_config(name);
        config.target_buffer = Some(0);
        sources.push(wrap(config));
    }
    sources
}

fn source_config(name: &str) -> DataSourceConfig {
    DataSourceConfig {
        name: Some(name.into()),
        ..Default::default()
    }
}

fn source(name: &str) -> DataSource {
    wrap(source_config(name))
}

fn wrap(config: DataSourceConfig) -> DataSource {
    DataSource {
        config: MessageField::some(config),
        ..Default::default()
    }
}

/// Returns the built-in config `:test`: two seconds of scheduling and frequencies.
pub(super) fn test_config() -> Result<TraceConfig, &'static str> {
    let events = [
        "sched/sched_switch",
        "power/cpu_idle",
        "power/cpu_frequency",
        "power/gpu_frequency",
    ];
    config(&Light {
        time: Some("2s".to_owned()),
        events: events.map(str::to_owned).to_vec(),
        ..Default::default()
    })
}

fn time_ms(text: &str) -> Option<u64> {
    with_unit(
        text,
        &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)],
    )
}

fn size_bytes(text: &str) -> Option<u64> {
    let (k, m, g) = (1 << 10, 1 << 20, 1 << 30);
    with_unit(
        text,
        &[
            ("kb", k),
            ("k", k),
            ("mb", m),
            ("m", m),
            ("gb", g),
            ("g", g),
        ],
    )
}

/// Parses digits with a unit in lower case. An empty text and zero without a unit are zero.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim_start().trim_start_matches('+');
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    if unit.is_empty() {
        return digits.chars().all(|digit| digit == '0').then_some(0);
    }
    let number: u64 = match digits {
        "" => return None,
        digits => digits.parse().unwrap_or(u64::MAX),
    };
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number.saturating_mul(*factor))
}

#[cfg(test)]
mod tests {
    use ferretto_proto::decode_lazy;

    use super::*;

    fn light(events: &[&str]) -> Light {
        Light {
            events: events.iter().map(|&e| e.into()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn cli_007_times_need_a_lower_case_unit() {
        assert_eq!(time_ms("1500ms"), Some(1500));
        assert_eq!(time_ms("2s"), Some(2000));
        assert_eq!(time_ms("1m"), Some(60_000));
        assert_eq!(time_ms("0"), Some(0));
        for wrong in ["5", "5S", "s", "1hour"] {
            let light = Light {
                time: Some(wrong.into()),
                ..Default::default()
            };
            assert_eq!(
                config(&light).unwrap_err(),
                "--time argument is invalid",
                "{wrong}"
            );
        }
    }

    #[test]
    fn cli_008_buffer_sizes_need_a_lower_case_unit() {
        for good in ["4mb", "4m"] {
            let light = Light {
                buffer: Some(good.into()),
                ..Default::default()
            };
            assert_eq!(config(&light).unwrap().buffers[0].size_kb, Some(4096));
        }
        let light = Light {
            buffer: Some("4MB".into()),
            ..Default::default()
        };
        assert_eq!(config(&light).unwrap_err(), "--buffer argument is invalid");
    }

    #[test]
    fn cli_009_a_size_streams_into_the_file() {
        let light = Light {
            size: Some("1mb".into()),
            ..Default::default()
        };
        let config = config(&light).unwrap();
        assert_eq!(config.write_into_file, Some(true));
        assert_eq!(config.max_file_size_bytes, Some(1_048_576));
    }

    #[test]
    fn cli_010_events_and_categories_share_one_source() {
        let config = config(&light(&["sched/sched_switch", "freq"])).unwrap();
        let names: Vec<_> = config
            .data_sources
            .iter()
            .map(|s| s.config.name.clone().unwrap())
            .collect();
        assert_eq!(
            names,
            ["linux.ftrace", "linux.process_stats", "linux.system_info"].map(Vec::from)
        );
        let ftrace: FtraceConfig =
            decode_lazy(&config.data_sources[0].config.ftrace_config).unwrap();
        assert_eq!(ftrace.ftrace_events, [b"sched/sched_switch".to_vec()]);
        assert_eq!(ftrace.atrace_categories, [b"freq".to_vec()]);
        assert_eq!(ftrace.symbolize_ksyms, Some(true));
        assert_eq!(config.flush_period_ms, Some(30_000));
    }

    #[test]
    fn cli_011_without_events_there_is_no_kernel_source() {
        let config = config(&light(&[])).unwrap();
        assert_eq!(config.data_sources.len(), 2);
    }
}
