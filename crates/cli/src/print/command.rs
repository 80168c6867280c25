//! The recorded command, for people.

use std::io::{self, Write};

use ferretto_trace::Summary;
use ferretto_trace::summary::{CommandResources, CommandSummary};

use ferretto_text::amount::{counted, duration, grouped, human_bytes, plural};
use ferretto_text::terminal::shown;

use super::{DIM, cut, heading};

/// The number of slice names to show.
const TOP_SLICES: usize = 12;
/// The width at which slice names are cut.
const NAME_WIDTH: usize = 60;

/// Prints the section, if the trace is of a command.
pub(super) fn command(
    out: &mut impl Write,
    summary: &Summary,
    width: Option<usize>,
) -> io::Result<()> {
    let Some(command) = &summary.command else {
        return Ok(());
    };
    heading(out, "command")?;
    let free = width.map_or(usize::MAX, |width| width.saturating_sub(3).max(10));
    writeln!(out, "  {}", cut(&shown(&command.command), free))?;
    amounts(out, command, summary.duration_ns)?;
    if let Some(used) = &command.resources {
        resources(out, used)?;
    }
    slices(out, command, width)
}

fn amounts(out: &mut impl Write, command: &CommandSummary, wall: Option<u64>) -> io::Result<()> {
    let Some(pid) = command.pid else {
        return writeln!(out, "  {DIM}the trace does not identify its process{DIM:#}");
    };
    let mut parts = Vec::new();
    if let Some(cpu) = command.cpu_ns {
        let share = match wall {
            Some(wall) if wall > 0 => format!(" ({:.1} %)", cpu as f64 * 100.0 / wall as f64),
            _ => String::new(),
        };
        parts.push(format!("{} on a CPU{share}", duration(cpu)));
    }
    parts.push(match command.processes {
        1 => format!("pid {pid}"),
        processes => {
            let more = (processes as u64).saturating_sub(1);
            format!("pid {pid} and {}", counted(more, "more process"))
        }
    });
    parts.push(counted(command.threads as u64, "thread"));
    parts.push(match command.events {
        0 => "no track events".to_owned(),
        events => counted(events, "track event"),
    });
    writeln!(out, "  {}", parts.join(", "))
}

/// Prints the resources of the whole run, which may be longer than the recording.
fn resources(out: &mut impl Write, used: &CommandResources) -> io::Result<()> {
    let mut times = Vec::new();
    times.extend(used.wall_ns.map(|ns| format!("ran {}", duration(ns))));
    if let (Some(user), Some(system)) = (used.user_ns, used.system_ns) {
        let (user, system) = (duration(user), duration(system));
        times.push(format!(
            "CPU time {user} in programs + {system} in the kernel"
        ));
    }
    times.extend(match (used.peak_memory, used.peak_memory_below) {
        (Some(peak), _) => Some(format!("peak memory {}", human_bytes(peak))),
        (None, Some(limit)) => Some(format!("peak memory below {}", human_bytes(limit))),
        (None, None) => None,
    });
    let mut events = Vec::new();
    if let (Some(minor), Some(major)) = (used.minor_faults, used.major_faults) {
        let all = minor.saturating_add(major);
        let noun = plural(all, "page fault");
        events.push(format!(
            "{} {noun} ({} from disk)",
            grouped(all),
            grouped(major)
        ));
    }
    if let (Some(own), Some(forced)) = (used.voluntary_switches, used.involuntary_switches) {
        let all = own.saturating_add(forced);
        let noun = plural(all, "context switch");
        events.push(format!(
            "{} {noun} ({} forced)",
            grouped(all),
            grouped(forced)
        ));
    }
    let mut data = Vec::new();
    let read = (used.bytes_read, used.read_calls, used.disk_bytes_read);
    let written = (
        used.bytes_written,
        used.write_calls,
        used.disk_bytes_written,
    );
    for (verb, (bytes, calls, of_disks), disks) in
        [("read", read, "from disks"), ("wrote", written, "to disks")]
    {
        let of_disks = of_disks.map(|bytes| format!("{} {disks}", human_bytes(bytes)));
        let all = bytes.zip(calls).map(|(bytes, calls)| {
            let calls = counted(calls, "call");
            format!("{} in {calls}", human_bytes(bytes))
        });
        data.extend(match (all, of_disks) {
            (Some(all), Some(of_disks)) => Some(format!("{verb} {all} ({of_disks})")),
            (all, of_disks) => all.or(of_disks).map(|some| format!("{verb} {some}")),
        });
    }
    for parts in [times, events, data]
        .iter()
        .filter(|parts| !parts.is_empty())
    {
        writeln!(out, "  {}", parts.join(", "))?;
    }
    Ok(())
}

fn slices(out: &mut impl Write, command: &CommandSummary, width: Option<usize>) -> io::Result<()> {
    if command.slices.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  {DIM}{:>10}  {:>10}  {:>10}  slices{DIM:#}",
        "count", "total", "longest"
    )?;
    for slices in command.slices.iter().take(TOP_SLICES) {
        let head = format!(
            "  {:>10}  {:>10}  {:>10}  ",
            grouped(slices.count),
            duration(slices.total_ns),
            duration(slices.max_ns)
        );
        let free = width.map_or(NAME_WIDTH, |width| width.saturating_sub(head.len()).max(10));
        let name = match slices.name.as_str() {
            "" => "(no name)".into(),
            name => shown(name),
        };
        let unfinished = match slices.unfinished {
            0 => String::new(),
            open => format!(" {DIM}({} without an end){DIM:#}", grouped(open)),
        };
        writeln!(out, "{head}{}{unfinished}", cut(&name, free))?;
    }
    let rest = command.slices.len().saturating_sub(TOP_SLICES) + command.more_slices;
    match rest {
        0 => Ok(()),
        rest => writeln!(
            out,
            "  {DIM}and {}{DIM:#}",
            counted(rest as u64, "more name")
        ),
    }
}
