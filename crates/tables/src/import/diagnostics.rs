//! Advice on problematic configs.

use ferretto_proto::fields::{
    data_source_config, ftrace_config, heapprofd_config, trace_config,
    trace_config::{buffer_config, data_source},
};
use ferretto_wire::Fields;

use super::context::Context;
use crate::schema::TraceDiagnosticsRow;
use crate::stats::Stat;

/// The size in KiB from which kernel buffers are large enough for the data between two reads.
const ENOUGH_KB: u64 = 1024;
/// The size in KiB up to which kernel buffers are much too small.
const TINY_KB: u64 = 64;
/// The bandwidths in MiB/s that a busy CPU may need, and that is much too low.
const ENOUGH_BANDWIDTH: f64 = 5.0;
const LOW_BANDWIDTH: f64 = 1.0;
/// The write period from which a file does not count as streamed: a week.
const SELDOM_MS: u64 = 604_800_000;
/// The sampling interval in bytes below which sampling is too expensive.
const OFTEN_BYTES: u64 = 100 * 1024;
/// The confidence if the trace shows the damage.
const SEEN: f64 = 0.9;

/// An advice: its name, the problem as title and description, the remedy, and the confidence.
struct Advice {
    key: &'static str,
    title: &'static str,
    description: String,
    remediation: &'static str,
    confidence: f64,
}

fn number(field: u32, bytes: &[u8]) -> Option<u64> {
    Fields::find(field, bytes).and_then(|field| field.as_u64())
}

fn is_set(field: u32, bytes: &[u8]) -> bool {
    number(field, bytes).is_some_and(|value| value != 0)
}

fn all(field: u32, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    Fields::new(bytes)
        .map_while(Result::ok)
        .filter(move |found| found.number == field)
        .filter_map(|found| found.as_bytes())
}

fn message(field: u32, bytes: &[u8]) -> Option<&[u8]> {
    Fields::find(field, bytes).and_then(|field| field.as_bytes())
}

/// Returns the position of a value between two others, from 0 to 1.
fn between(value: f64, low: f64, high: f64) -> f64 {
    ((value - low) / (high - low)).clamp(0.0, 1.0)
}

/// Adds advice on a data source of kernel events.
fn ftrace(config: &[u8], has_loss: bool, found: &mut Vec<Advice>) {
    let size = number(ftrace_config::BUFFER_SIZE_KB, config).filter(|kb| *kb > 0);
    let period = number(ftrace_config::DRAIN_PERIOD_MS, config);
    let certainty = |without: f64| if has_loss { SEEN } else { without };
    if let Some(kb) = size.filter(|kb| *kb < ENOUGH_KB) {
        found.push(Advice {
            key: "tiny_ftrace_buffer",
            title: "Small kernel buffers",
            description: format!(
                "The kernel buffers have {kb} KiB for each CPU. Bursts of events overwrite unread \
                 data."
            ),
            remediation: "Leave out buffer_size_kb, or set it to 1024 or more.",
            confidence: certainty(0.9 - 0.7 * between(kb as f64, TINY_KB as f64, ENOUGH_KB as f64)),
        });
    }
    if let (Some(kb), Some(ms)) = (size, period.filter(|ms| *ms > 0)) {
        let bandwidth = kb as f64 / 1024.0 / (ms as f64 / 1000.0);
        if bandwidth < ENOUGH_BANDWIDTH {
            let low = 1.0 - between(bandwidth, LOW_BANDWIDTH, ENOUGH_BANDWIDTH);
            found.push(Advice {
                key: "low_ftrace_drain_bandwidth",
                title: "Kernel buffers are read too slowly",
                description: format!(
                    "{kb} KiB for each CPU, read every {ms} ms, are less than 5 MiB a second."
                ),
                remediation: "Leave out buffer_size_kb and drain_period_ms, or raise the first or \
                              lower the second.",
                confidence: certainty(0.9 * low),
            });
        }
    }
    if let Some(ms) = period.filter(|ms| !(100..=60_000).contains(ms)) {
        found.push(Advice {
            key: "extreme_ftrace_drain_period",
            title: "Unusual read period",
            description: format!(
                "Kernel buffers are read every {ms} ms. Shorter than 100 ms wakes the CPU often, \
                 longer than a minute loses events."
            ),
            remediation: "Leave out drain_period_ms, or set it to between 100 and 60000.",
            confidence: 0.6,
        });
    }
    let has = |wanted: &[&[u8]]| {
        all(ftrace_config::FTRACE_EVENTS, config).find(|event| wanted.contains(event))
    };
    if has(&[b"raw_syscalls/sys_enter", b"raw_syscalls/sys_exit"]).is_some()
        && Fields::find(ftrace_config::SYSCALL_EVENTS, config).is_none()
    {
        found.push(Advice {
            key: "syscalls_without_filter",
            title: "All system calls are recorded",
            description: "Every system call of every thread is recorded, which makes large traces \
                          and costs time."
                .to_owned(),
            remediation: "List the relevant system calls in syscall_events.",
            confidence: certainty(0.3),
        });
    }
    if is_set(ftrace_config::SYMBOLIZE_KSYMS, config) {
        return;
    }
    if is_set(ftrace_config::ENABLE_FUNCTION_GRAPH, config) {
        found.push(Advice {
            key: "function_graph_requires_symbolize_ksyms",
            title: "Functions without names",
            description:
                "Kernel functions are recorded as addresses, which cannot be symbolized later."
                    .to_owned(),
            remediation: "Set symbolize_ksyms.",
            confidence: 1.0,
        });
    }
    let event = has(&[
        b"workqueue/workqueue_execute_start",
        b"sched/sched_blocked_reason",
    ]);
    if let Some(event) = event {
        found.push(Advice {
            key: "events_require_symbolize_ksyms",
            title: "Events with addresses",
            description: format!(
                "{} has addresses of kernel functions, which cannot be symbolized later.",
                String::from_utf8_lossy(event)
            ),
            remediation: "Set symbolize_ksyms.",
            confidence: 0.6,
        });
    }
}

/// Returns the advice on a `TraceConfig`.
fn advice(cx: &Context, config: &[u8]) -> Vec<Advice> {
    const DISCARD: u64 = 2;
    let stats = &cx.store.stats;
    let has_loss = stats.has_any(Stat::ftrace_cpu_has_data_loss);
    let sources: Vec<&[u8]> = all(trace_config::DATA_SOURCES, config)
        .filter_map(|source| message(data_source::CONFIG, source))
        .collect();
    let mut found = Vec::new();
    for source in &sources {
        if let Some(config) = message(data_source_config::FTRACE_CONFIG, source) {
            ftrace(config, has_loss, &mut found);
        }
    }
    let discards: Vec<bool> = all(trace_config::BUFFERS, config)
        .map(|buffer| number(buffer_config::FILL_POLICY, buffer) == Some(DISCARD))
        .collect();
    let period = number(trace_config::FILE_WRITE_PERIOD_MS, config).unwrap_or(0);
    let streams = is_set(trace_config::WRITE_INTO_FILE, config) && period < SELDOM_MS;
    for source in sources.iter().filter(|_| streams) {
        let name = message(data_source_config::NAME, source).unwrap_or_default();
        let buffer = number(data_source_config::TARGET_BUFFER, source).unwrap_or(0);
        let discards = usize::try_from(buffer).is_ok_and(|b| discards.get(b) == Some(&true));
        if discards && [b"linux.ftrace".as_slice(), b"track_event"].contains(&name) {
            found.push(Advice {
                key: "discard_buffer_for_streaming",
                title: "The recording ends when its buffer is full",
                description: format!(
                    "{} writes into a buffer that accepts no data once it is full, although the \
                     trace is streamed into a file.",
                    String::from_utf8_lossy(name)
                ),
                remediation: "Use the fill policy RING_BUFFER.",
                confidence: 0.8,
            });
        }
    }
    for source in &sources {
        let heap = message(data_source_config::HEAPPROFD_CONFIG, source);
        let interval =
            heap.and_then(|heap| number(heapprofd_config::SAMPLING_INTERVAL_BYTES, heap));
        if let Some(bytes) = interval.filter(|bytes| (1..OFTEN_BYTES).contains(bytes)) {
            found.push(Advice {
                key: "heapprofd_sampling_interval_too_low",
                title: "Allocations are sampled very often",
                description: format!(
                    "One allocation in {bytes} bytes is sampled, which slows the program down and \
                     is hardly more precise than one in 100 KiB."
                ),
                remediation: "Raise sampling_interval_bytes to 102400 or more.",
                confidence: 0.3,
            });
        }
    }
    found
}

/// Writes the advice on the config of a trace into the tables.
pub(super) fn run(cx: &mut Context, config: &[u8]) {
    for advice in advice(cx, config) {
        let row = TraceDiagnosticsRow {
            key: cx.store.strings.intern(advice.key),
            title: cx.store.strings.intern(advice.title),
            description: cx.store.strings.intern(&advice.description),
            remediation: cx.store.strings.intern(advice.remediation),
            confidence: advice.confidence,
            trace_id: Some(cx.store.trace_file),
        };
        cx.store.tables.trace_diagnostics.push(row);
    }
}
