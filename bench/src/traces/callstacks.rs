//! Traces of profiler samples with callstacks of three programs and the kernel.

use std::io;

use ferretto_proto::fields::{
    callstack, frame, interned_data, interned_string, mapping, perf_events, perf_sample,
    perf_sample_defaults, trace_packet, trace_packet_defaults,
};

use super::{BEGIN, Numbers, Packet, Trace, write_processes};

const CPUS: u64 = 8;
const FIRST: u64 = 2000;
const PROCESSES: u64 = 20;
const THREADS: u64 = 10;
const MAPPINGS: u64 = 12;
const FUNCTIONS: u64 = 4000;
/// The minimum and maximum number of frames in a callstack.
const FRAMES: (u64, u64) = (8, 60);
/// The number of distinct callstacks.
const STACKS: u64 = 200_000;

const CLEARED: u64 = 1;
const NEEDS: u64 = 2;
const KERNEL: u64 = 1;
const USER: u64 = 2;
const CPU_CLOCK: u64 = 1;
const ONCE_IN_NANOSECONDS: u64 = 1_000_000;

pub(super) fn write(trace: &mut Trace<'_>) -> io::Result<()> {
    write_processes(trace, FIRST, PROCESSES, THREADS)?;
    trace.packet(|packet| {
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 5);
        packet.varint(trace_packet::SEQUENCE_FLAGS, CLEARED);
        packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |defaults| {
            defaults.nested(trace_packet_defaults::PERF_SAMPLE_DEFAULTS, |defaults| {
                defaults.nested(perf_sample_defaults::TIMEBASE, |timebase| {
                    timebase.varint(perf_events::timebase::PERIOD, ONCE_IN_NANOSECONDS);
                    timebase.varint(perf_events::timebase::COUNTER, CPU_CLOCK);
                });
            });
        });
        packet.nested(trace_packet::INTERNED_DATA, |data| {
            data.nested(interned_data::FUNCTION_NAMES, |name| {
                name.varint(interned_string::IID, 0);
            });
            for iid in 0..MAPPINGS {
                write_mapping(data, iid + 1);
            }
        });
    })?;
    let mut numbers = trace.numbers(3);
    let mut now = BEGIN;
    let mut known = Known {
        functions: vec![false; FUNCTIONS as usize],
        stacks: 0,
    };
    while !trace.is_full() {
        now += 5_000 + numbers.below(50_000);
        write_sample(trace, now, &mut numbers, &mut known)?;
    }
    Ok(())
}

/// The functions and callstacks that have been interned in the sequence.
struct Known {
    functions: Vec<bool>,
    stacks: u64,
}

fn write_mapping(data: &mut Packet<'_>, iid: u64) {
    for (table, text) in [
        (interned_data::MAPPING_PATHS, format!("library-{iid}.so")),
        (interned_data::BUILD_IDS, format!("build-{iid:014}")),
    ] {
        data.nested(table, |entry| {
            entry.varint(interned_string::IID, iid);
            entry.string(interned_string::STR, &text);
        });
    }
    data.nested(interned_data::MAPPINGS, |entry| {
        entry.varint(mapping::IID, iid);
        entry.varint(mapping::BUILD_ID, iid);
        entry.varint(mapping::START, iid << 32);
        entry.varint(mapping::END, (iid << 32) + (1 << 24));
        entry.varint(mapping::PATH_STRING_IDS, iid);
    });
}

fn write_sample(
    trace: &mut Trace<'_>,
    now: u64,
    numbers: &mut Numbers,
    known: &mut Known,
) -> io::Result<()> {
    let is_new = known.stacks == 0 || known.stacks < STACKS && numbers.percent(8);
    let stack = if is_new {
        known.stacks += 1;
        known.stacks
    } else {
        known.stacks - numbers.skewed_below(known.stacks)
    };
    // // A callstack belongs to one process, since different programs have little in common.
    let pid = FIRST + stack % PROCESSES * THREADS;
    let tid = pid + numbers.below(THREADS);
    trace.packet(|packet| {
        packet.varint(trace_packet::TIMESTAMP, now);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 5);
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS);
        if is_new {
            packet.nested(trace_packet::INTERNED_DATA, |data| {
                write_stack(data, stack, numbers, known);
            });
        }
        packet.nested(trace_packet::PERF_SAMPLE, |sample| {
            sample.varint(perf_sample::CPU, numbers.below(CPUS));
            sample.varint(perf_sample::PID, pid);
            sample.varint(perf_sample::TID, tid);
            let mode = if numbers.percent(20) { KERNEL } else { USER };
            sample.varint(perf_sample::CPU_MODE, mode);
            let count = now / CPUS;
            sample.varint(perf_sample::TIMEBASE_COUNT, count);
            sample.varint(perf_sample::CALLSTACK_IID, stack);
        });
    })
}

/// Writes a callstack and its new frames. As in real programs, there are few callers near the root
/// and many near the leaf.
fn write_stack(data: &mut Packet<'_>, stack: u64, numbers: &mut Numbers, known: &mut Known) {
    let depth = FRAMES.0 + numbers.below(FRAMES.1 - FRAMES.0);
    let mut frames = Vec::new();
    for level in 0..depth {
        let choices = (1 + level).min(FUNCTIONS / 64);
        let range = numbers.skewed_below(choices) + 1;
        let function = level % 64 * (FUNCTIONS / 64) + numbers.skewed_below(range);
        if !known.functions[function as usize] {
            known.functions[function as usize] = true;
            data.nested(interned_data::FUNCTION_NAMES, |name| {
                name.varint(interned_string::IID, function + 1);
                let text = format!("library::part_{}::function_{function}", function % 50);
                name.string(interned_string::STR, &text);
            });
            data.nested(interned_data::FRAMES, |entry| {
                entry.varint(frame::IID, function + 1);
                entry.varint(frame::FUNCTION_NAME_ID, function + 1);
                entry.varint(frame::MAPPING_ID, function % MAPPINGS + 1);
                entry.varint(frame::REL_PC, 0x1000 + function * 64);
            });
        }
        frames.push(function + 1);
    }
    data.nested(interned_data::CALLSTACKS, |entry| {
        entry.varint(callstack::IID, stack);
        for iid in frames {
            entry.varint(callstack::FRAME_IDS, iid);
        }
    });
}
