//! The kernel's statistics of a recording.

use ferretto_proto::fields::{
    ftrace_cpu_stats as cpu_stats, ftrace_kprobe_stats as kprobes, ftrace_stats as field,
};
use ferretto_wire::Fields;

use super::Context;
use crate::import::message::Message;
use crate::stats::Stat;
use crate::trackers::args::ArgSet;

/// The phases of a recording.
const START_OF_TRACE: u64 = 1;
const END_OF_TRACE: u64 = 2;
/// The only error of parsing kernel pages that loses no data.
const ABI_ZERO_DATA_LENGTH: u64 = 12;

/// The results for the rest of the import.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Set if some events could not be recorded.
    pub(super) has_errors: bool,
    /// Set if events from before the recording are preserved.
    pub(super) preserves: bool,
}

/// A statistic of a CPU: its field, and the statistics at the start, at the end, and of the
/// difference.
type CpuNumber = (u32, Stat, Stat, Option<Stat>);

const CPU_NUMBERS: [CpuNumber; 6] = [
    (
        cpu_stats::ENTRIES,
        Stat::ftrace_cpu_entries_begin,
        Stat::ftrace_cpu_entries_end,
        Some(Stat::ftrace_cpu_entries_delta),
    ),
    (
        cpu_stats::OVERRUN,
        Stat::ftrace_cpu_overrun_begin,
        Stat::ftrace_cpu_overrun_end,
        Some(Stat::ftrace_cpu_overrun_delta),
    ),
    (
        cpu_stats::COMMIT_OVERRUN,
        Stat::ftrace_cpu_commit_overrun_begin,
        Stat::ftrace_cpu_commit_overrun_end,
        Some(Stat::ftrace_cpu_commit_overrun_delta),
    ),
    (
        cpu_stats::BYTES_READ,
        Stat::ftrace_cpu_bytes_begin,
        Stat::ftrace_cpu_bytes_end,
        Some(Stat::ftrace_cpu_bytes_delta),
    ),
    (
        cpu_stats::DROPPED_EVENTS,
        Stat::ftrace_cpu_dropped_events_begin,
        Stat::ftrace_cpu_dropped_events_end,
        Some(Stat::ftrace_cpu_dropped_events_delta),
    ),
    (
        cpu_stats::READ_EVENTS,
        Stat::ftrace_cpu_read_events_begin,
        Stat::ftrace_cpu_read_events_end,
        Some(Stat::ftrace_cpu_read_events_delta),
    ),
];

/// Times of a CPU in seconds.
const CPU_TIMES: [CpuNumber; 2] = [
    (
        cpu_stats::NOW_TS,
        Stat::ftrace_cpu_now_ts_begin,
        Stat::ftrace_cpu_now_ts_end,
        None,
    ),
    (
        cpu_stats::OLDEST_EVENT_TS,
        Stat::ftrace_cpu_oldest_event_ts_begin,
        Stat::ftrace_cpu_oldest_event_ts_end,
        None,
    ),
];

/// Reads a `FtraceStats`. Counts errors unless they were counted before.
pub(super) fn parse(cx: &mut Context, bytes: &[u8], errors_are_known: bool) -> Read {
    let all = Message::<16>::read(bytes);
    let is_end = match all.uint(field::PHASE) {
        START_OF_TRACE => false,
        END_OF_TRACE => true,
        _ => return Read::default(),
    };
    let mut read = Read::default();
    for part in Fields::new(bytes).map_while(Result::ok) {
        match part.number {
            field::CPU_STATS => of_cpu(cx, part.as_bytes().unwrap_or_default(), is_end),
            field::FTRACE_PARSE_ERRORS => {
                for error in part.as_varints() {
                    if error == ABI_ZERO_DATA_LENGTH {
                        let stat = Stat::ftrace_abi_errors_skipped_zero_data_length;
                        cx.store.stats.add(stat, 1);
                    } else {
                        let stat = Stat::ftrace_bundle_tokenizer_errors;
                        cx.store.stats.add(stat, 1);
                    }
                }
            }
            number if !is_end && !errors_are_known => {
                let what = match number {
                    field::FAILED_FTRACE_EVENTS => "Ftrace event failed: ",
                    field::UNKNOWN_FTRACE_EVENTS => "Ftrace event unknown: ",
                    field::ATRACE_ERRORS => "Atrace failures: ",
                    field::EXCLUSIVE_FEATURE_ERROR => "Ftrace exclusive feature error: ",
                    _ => continue,
                };
                let Some(text) = part.as_str_lossy().filter(|text| !text.is_empty()) else {
                    continue;
                };
                read.has_errors = true;
                let mut args = ArgSet::default();
                args.text(&mut cx.store, "message", &format!("{what}{text}"));
                cx.store.log(Stat::ftrace_setup_errors, None, args);
            }
            _ => {}
        }
    }
    let kprobe_stats = Message::<3>::read(all.bytes(field::KPROBE_STATS));
    let numbers = [
        (
            kprobes::HITS,
            Stat::ftrace_kprobe_hits_begin,
            Stat::ftrace_kprobe_hits_end,
            Stat::ftrace_kprobe_hits_delta,
        ),
        (
            kprobes::MISSES,
            Stat::ftrace_kprobe_misses_begin,
            Stat::ftrace_kprobe_misses_end,
            Stat::ftrace_kprobe_misses_delta,
        ),
    ];
    for (field, begin, end, delta) in numbers {
        let value = kprobe_stats.int(field);
        let stats = &mut cx.store.stats;
        stats.set(if is_end { end } else { begin }, value);
        if is_end {
            let before = stats.get(begin, None).unwrap_or(0);
            stats.set(delta, value.wrapping_sub(before));
        }
    }
    read.preserves = !is_end && all.uint(field::PRESERVE_FTRACE_BUFFER) != 0;
    read
}

fn of_cpu(cx: &mut Context, bytes: &[u8], is_end: bool) {
    let numbers = Message::<10>::read(bytes);
    let cpu = i64::from(numbers.u32(cpu_stats::CPU));
    let stats = &mut cx.store.stats;
    for (field, begin, end, delta) in CPU_NUMBERS {
        let value = numbers.int(field);
        stats.set_indexed(if is_end { end } else { begin }, cpu, value);
        if let (true, Some(delta), Some(before)) = (is_end, delta, stats.get(begin, Some(cpu))) {
            stats.set_indexed(delta, cpu, value.wrapping_sub(before));
        }
    }
    for (field, begin, end, _) in CPU_TIMES {
        let ns = f64::from_bits(numbers.uint(field)) * 1e9;
        stats.set_indexed(if is_end { end } else { begin }, cpu, ns as i64);
    }
}
