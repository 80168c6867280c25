//! Memory and frequencies of a machine.

use std::io::{self, Write};

use ferretto_text::amount::{alike, counted, grouped};
use ferretto_trace::summary::{FrequencySummary, MemorySummary};

use super::{MAX_CPUS, cut, heading, process_name};

/// Processes shown.
const TOP: usize = 5;
/// Growth of a process that is worth a line, in bytes.
const MIN_GROWTH: u64 = 1 << 20;

/// Prints how much memory was needed, and which processes took it.
pub(super) fn memory(
    out: &mut impl Write,
    memory: &MemorySummary,
    width: Option<usize>,
) -> io::Result<()> {
    let grown = memory.processes.iter();
    let grown: Vec<_> = grown
        .filter(|process| process.memory.growth() >= MIN_GROWTH)
        .collect();
    let faults = memory.page_faults.filter(|faults| *faults > 0);
    let available = memory
        .available
        .filter(|level| level.lowest != level.highest);
    if faults.is_none() && available.is_none() && grown.is_empty() {
        return Ok(());
    }
    heading(out, "memory")?;
    if let Some(faults) = faults {
        let faults = counted(faults, "page fault");
        let of_disk = match memory.disk_page_faults {
            Some(0) | None => "none had to wait for a disk".to_owned(),
            Some(number) => format!("{} had to wait for a disk", grouped(number)),
        };
        writeln!(
            out,
            "  {faults}: programs touched memory that they did not have yet; {of_disk}"
        )?;
    }
    if let Some(level) = available {
        let [first, lowest, last] = alike([level.first, level.lowest, level.last]);
        writeln!(
            out,
            "  {first} were available at first, {last} at the end, {lowest} at least"
        )?;
    }
    let [read, written] = [memory.swapped_in, memory.swapped_out].map(|pages| pages.unwrap_or(0));
    if read > 0 || written > 0 {
        let (read, written) = (grouped(read), counted(written, "page"));
        writeln!(out, "  {written} written to swap, {read} read from there")?;
    }
    if let Some(killed @ 1..) = memory.killed {
        writeln!(out, "  {} killed for lack of memory", grouped(killed))?;
    }
    for process in grown.iter().take(TOP) {
        let level = process.memory;
        let [growth, first, last, highest] =
            alike([level.growth(), level.first, level.last, level.highest]);
        let head = format!(
            "  {:>11}  from {first} to {highest} at most, {last} at the end  pid {:<7} ",
            format!("+{growth}"),
            process.pid
        );
        let name = process_name(&process.name, process.machine);
        let free = width.map_or(usize::MAX, |width| {
            width.saturating_sub(head.len() + 1).max(10)
        });
        writeln!(out, "{head} {}", cut(&name, free))?;
    }
    match grown.len().saturating_sub(TOP) {
        0 => Ok(()),
        more => writeln!(out, "  {} grew", counted(more as u64, "more process")),
    }
}

/// Prints at which frequencies CPUs ran.
pub(super) fn frequencies(out: &mut impl Write, cpus: &[FrequencySummary]) -> io::Result<()> {
    let Some(first) = cpus.first() else {
        return Ok(());
    };
    heading(out, "frequencies of CPUs")?;
    let ghz = |khz: u64| khz as f64 / 1e6;
    let is_as_first = |cpu: &FrequencySummary| {
        cpu.changes == 0 && cpu.lowest_khz == first.lowest_khz && first.changes == 0
    };
    if cpus.iter().all(is_as_first) {
        return writeln!(out, "  {:.2} GHz, all the time", ghz(first.lowest_khz));
    }
    for cpu in cpus.iter().take(MAX_CPUS) {
        let (low, high) = (ghz(cpu.lowest_khz), ghz(cpu.highest_khz));
        let changes = grouped(cpu.changes);
        let number = cpu.cpu;
        match cpu.changes {
            0 => writeln!(out, "  CPU {number:<3} {low:.2} GHz")?,
            1 => writeln!(
                out,
                "  CPU {number:<3} {low:.2} to {high:.2} GHz, changed once"
            )?,
            _ => writeln!(
                out,
                "  CPU {number:<3} {low:.2} to {high:.2} GHz, changed {changes} times"
            )?,
        }
    }
    match cpus.len().saturating_sub(MAX_CPUS) {
        0 => Ok(()),
        more => writeln!(out, "  {more} more"),
    }
}
