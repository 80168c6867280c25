//! `FtraceStats` packets: losses of the kernel's buffers, and settings that failed.

use std::collections::BTreeSet;

use ferretto_proto::fields::{
    ftrace_cpu_stats as cpu, ftrace_kprobe_stats, ftrace_stats as stats, trace_packet,
};
use ferretto_wire::Encoder;

use super::bytes::Out;
use super::page::ParseStatus;
use super::tracefs::{CpuStats, Tracefs};

/// The time of a sample, with the numbers of `FtraceStats.Phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Right after the start.
    Start = 1,
    /// At a flush.
    End = 2,
}

/// The counters of all CPUs at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// One entry per CPU.
    pub cpus: Vec<CpuStats>,
    /// The number of known kernel symbols, and their memory in KiB.
    pub symbols: (u32, u32),
    /// Hits and misses of kernel probes.
    pub kprobes: (i64, i64),
    /// The actual number of pages per CPU.
    pub buffer_pages: usize,
    /// The configured number of pages per CPU.
    pub configured_pages: usize,
}

/// The parts of a config that could not be set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SetupReport {
    /// Events this kernel does not have.
    pub unknown: Vec<String>,
    /// Events that exist but could not be enabled, and features that could not be used.
    pub failed: Vec<String>,
}

impl Sample {
    /// Reads the counters of `cpus`.
    pub(super) fn take(fs: &Tracefs, cpus: &[u32]) -> Self {
        Self {
            cpus: cpus.iter().map(|&cpu| fs.cpu_stats(cpu)).collect(),
            ..Self::default()
        }
    }

    fn encode(&self, report: Option<&SetupReport>, out: &mut Out<'_>) {
        for sample in &self.cpus {
            out.nested(stats::CPU_STATS, |out| {
                out.varint(cpu::CPU, sample.cpu.into());
                out.varint(cpu::ENTRIES, sample.entries);
                out.varint(cpu::OVERRUN, sample.overrun);
                out.varint(cpu::COMMIT_OVERRUN, sample.commit_overrun);
                out.varint(cpu::BYTES_READ, sample.bytes);
                out.double(cpu::OLDEST_EVENT_TS, sample.oldest_event_ts);
                out.double(cpu::NOW_TS, sample.now_ts);
                out.varint(cpu::DROPPED_EVENTS, sample.dropped_events);
                out.varint(cpu::READ_EVENTS, sample.read_events);
            });
        }
        out.varint(stats::KERNEL_SYMBOLS_PARSED, self.symbols.0.into());
        out.varint(stats::KERNEL_SYMBOLS_MEM_KB, self.symbols.1.into());
        if let Some(report) = report {
            for event in &report.unknown {
                out.string(stats::UNKNOWN_FTRACE_EVENTS, event);
            }
            for event in &report.failed {
                out.string(stats::FAILED_FTRACE_EVENTS, event);
            }
        }
        if self.kprobes != (0, 0) {
            out.nested(stats::KPROBE_STATS, |out| {
                out.int(ftrace_kprobe_stats::HITS, self.kprobes.0);
                out.int(ftrace_kprobe_stats::MISSES, self.kprobes.1);
            });
        }
        out.varint(stats::CPU_BUFFER_SIZE_PAGES, self.buffer_pages as u64);
        out.varint(
            stats::CACHED_CPU_BUFFER_SIZE_PAGES,
            self.configured_pages as u64,
        );
    }

    /// Returns the packet with the counters at the start and the failed settings.
    pub(super) fn start_packet(&self, report: &SetupReport) -> Vec<u8> {
        packet(Phase::Start, |out| self.encode(Some(report), out))
    }

    /// Returns the packet with the counters at a flush and the errors in pages.
    pub(super) fn end_packet(&self, errors: &BTreeSet<ParseStatus>) -> Vec<u8> {
        packet(Phase::End, |out| {
            self.encode(None, out);
            for &error in errors {
                out.varint(stats::FTRACE_PARSE_ERRORS, error as u64);
            }
        })
    }
}

/// Returns the packet that marks events from before the start as intended.
pub(super) fn preserve_packet() -> Vec<u8> {
    packet(Phase::Start, |out| {
        out.bool(stats::PRESERVE_FTRACE_BUFFER, true)
    })
}

fn packet(phase: Phase, body: impl FnOnce(&mut Out<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes).nested(trace_packet::FTRACE_STATS, |out| {
        out.varint(stats::PHASE, phase as u64);
        body(out);
    });
    bytes
}
