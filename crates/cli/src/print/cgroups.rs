//! Containers, units and other control groups.

use std::io::{self, Write};

use ferretto_text::amount::{alike, counted, grouped, human_bytes};
use ferretto_trace::summary::CgroupSummary;

use super::heading;

/// Groups shown.
const TOP: usize = 8;
/// CPU time that is worth a line, in nanoseconds.
const MIN_CPU: u64 = 1_000_000;

/// Prints what containers and units used: containers first.
pub(super) fn cgroups(out: &mut impl Write, groups: &[CgroupSummary]) -> io::Result<()> {
    let is_notable = |group: &&CgroupSummary| {
        group.is_container || group.cpu_ns >= Some(MIN_CPU) || group.killed > Some(0)
    };
    let mut shown: Vec<&CgroupSummary> = groups.iter().filter(is_notable).collect();
    shown.sort_by_key(|group| !group.is_container);
    if shown.is_empty() {
        return Ok(());
    }
    heading(out, "control groups")?;
    for group in shown.iter().take(TOP) {
        let cpu = group
            .cpu_ns
            .map_or_else(String::new, |ns| format!("{:.3} s", ns as f64 / 1e9));
        let name = &group.name;
        let name = match (group.is_container, group.engine) {
            (true, Some(engine)) => format!("container {name} ({engine})"),
            (true, None) => format!("container {name}"),
            (false, _) => name.clone(),
        };
        let details = details(group);
        let separator = if details.is_empty() { "" } else { ": " };
        writeln!(out, "  {cpu:>11}  {name}{separator}{}", details.join("; "))?;
    }
    match shown.len().saturating_sub(TOP) {
        0 => Ok(()),
        more => writeln!(out, "  {}", counted(more as u64, "more control group")),
    }
}

fn details(group: &CgroupSummary) -> Vec<String> {
    let mut details = Vec::new();
    if group.processes > 0 {
        details.push(counted(group.processes as u64, "process"));
    }
    if let (Some(throttled @ 1..), Some(ns)) = (group.throttled_periods, group.throttled_ns) {
        let of_all = group
            .periods
            .map_or_else(String::new, |periods| format!(" of {}", grouped(periods)));
        details.push(format!(
            "throttled for {:.3} s in {}{of_all} periods",
            ns as f64 / 1e9,
            grouped(throttled)
        ));
    }
    if let Some(level) = group.memory {
        let [highest, last] = alike([level.highest, level.last]);
        let limit = group
            .memory_limit
            .map_or_else(String::new, |limit| format!(" of {}", human_bytes(limit)));
        details.push(format!(
            "memory {highest}{limit} at most, {last} at the end"
        ));
    }
    if let Some(killed @ 1..) = group.killed {
        details.push(format!("{} killed for lack of memory", grouped(killed)));
    }
    let bytes = [(group.read_bytes, "read"), (group.written_bytes, "written")];
    for (amount, word) in bytes {
        if let Some(amount @ 1..) = amount {
            details.push(format!("{} {word}", human_bytes(amount)));
        }
    }
    details
}
