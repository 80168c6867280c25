//! Kernel activity: system calls, interrupts, disk requests, network packets.

use std::io::{self, Write};

use ferretto_text::amount::{grouped, human_bytes, human_time};
use ferretto_text::terminal::shown;
use ferretto_trace::Summary;
use ferretto_trace::summary::{ActivityKind, ActivitySummary};

use super::{DIM, heading};

/// The number of rows of a kind.
const TOP: usize = 8;
/// The widest name.
const MAX_NAME: usize = 40;

/// Prints the largest of each kind; first the system calls of the recorded processes.
pub(super) fn activity(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let own = &summary.own_system_calls;
    if !own.is_empty() {
        let pids: Vec<String> = summary.pids.iter().map(i32::to_string).collect();
        let whose = match pids.as_slice() {
            [] => "the command".to_owned(),
            [pid] => format!("process {pid}"),
            pids => format!("processes {}", pids.join(", ")),
        };
        heading(out, &format!("system calls of {whose} by time"))?;
        rows(out, own)?;
    }
    let all = summary.activity.as_slice();
    for of_kind in all.chunk_by(|a, b| a.kind == b.kind) {
        let Some(first) = of_kind.first() else {
            continue;
        };
        let title = match first.kind {
            ActivityKind::SystemCall if !own.is_empty() => "system calls of the machine by time",
            kind => title(kind),
        };
        heading(out, title)?;
        rows(out, of_kind)?;
    }
    Ok(())
}

fn rows(out: &mut impl Write, rows: &[ActivitySummary]) -> io::Result<()> {
    let names = || rows.iter().take(TOP);
    let width = names().map(|row| shown(&row.name).chars().count()).max();
    let width = width.unwrap_or(0).min(MAX_NAME);
    for row in names() {
        let (name, count) = (shown(&row.name), grouped(row.count));
        let times = if row.count == 1 { "time " } else { "times" };
        write!(out, "  {name:width$}  {count:>13} {times}")?;
        if row.bytes > 0 {
            write!(out, "  {:>10}", human_bytes(row.bytes))?;
        }
        if let Some(mean) = row.total_ns.checked_div(row.finished) {
            write!(
                out,
                "  {:>10} in total, {} on average, {} at most",
                human_time(row.total_ns),
                human_time(mean),
                human_time(row.max_ns)
            )?;
        }
        if row.errors > 0 {
            write!(out, ", {} failed", grouped(row.errors))?;
        }
        writeln!(out)?;
    }
    match rows.len().saturating_sub(TOP) {
        0 => Ok(()),
        rest => writeln!(out, "  {DIM}{rest} more{DIM:#}"),
    }
}

fn title(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::SystemCall => "system calls by time",
        ActivityKind::Interrupt => "interrupts by time",
        ActivityKind::SoftInterrupt => "soft interrupts by time",
        ActivityKind::DiskRequest => "requests to disks by time",
        ActivityKind::NetworkPacket => "packets of the network by bytes",
        ActivityKind::Network => "events of the network",
        ActivityKind::Memory => "the kernel's search for memory",
        ActivityKind::Work => "work of the kernel in the background",
        ActivityKind::Probe => "calls of functions (--uprobe, --kprobe)",
        _ => "other work of the kernel",
    }
}

/// Returns the kind as one word, for programs.
pub(super) fn word(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::SystemCall => "system_call",
        ActivityKind::Interrupt => "interrupt",
        ActivityKind::SoftInterrupt => "soft_interrupt",
        ActivityKind::DiskRequest => "disk_request",
        ActivityKind::NetworkPacket => "network_packet",
        ActivityKind::Network => "network",
        ActivityKind::Memory => "memory",
        ActivityKind::Work => "work",
        ActivityKind::Probe => "probe",
        _ => "other",
    }
}
