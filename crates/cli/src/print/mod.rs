//! The summary of a trace, for people.

mod activity;
mod cgroups;
mod command;
mod heap;
pub(crate) mod json;
mod machine;
mod profile;

pub(crate) use self::profile::{sample_amount, sampled_by, unit_noun};

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use ferretto_trace::Summary;
use ferretto_trace::summary::{Cause, CounterSummary, Loss, MachineSummary, SourceSummary};

use ferretto_text::amount::{counted, duration, grouped, human_bytes, human_time, plural};
use ferretto_text::terminal::shown;

const HEADING: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// The number of processes to show.
const TOP_PROCESSES: usize = 10;
/// The data source of track events.
const TRACK_EVENTS: &str = "track_event";
/// The number of kinds of events to name for a data source.
const TOP_KINDS: usize = 4;
/// The largest number of CPUs to show one by one. Beyond it, only the total is shown.
const MAX_CPUS: usize = 16;

/// Prints a summary. Long command lines are cut to `width`, if given.
pub(crate) fn summary(
    out: &mut impl Write,
    name: &str,
    summary: &Summary,
    width: Option<usize>,
) -> io::Result<()> {
    write!(
        out,
        "{HEADING}{}{HEADING:#}: {}",
        shown(name),
        human_bytes(summary.bytes)
    )?;
    if let Some((compression, bytes)) = summary.compressed {
        let by = compression.as_str();
        write!(out, " ({} by {by})", human_bytes(bytes))?;
    }
    if let Some(ns) = summary.duration_ns {
        write!(out, ", {}", duration(ns))?;
    }
    writeln!(out, ", {}", counted(summary.packets, "packet"))?;
    command::command(out, summary, width)?;
    events(out, summary, width)?;
    cpus(out, summary)?;
    processes(out, summary, width)?;
    machine::frequencies(out, &summary.frequencies)?;
    machine::memory(out, &summary.memory, width)?;
    cgroups::cgroups(out, &summary.cgroups)?;
    activity::activity(out, summary)?;
    profile::profiles(out, &summary.profiles, width)?;
    heap::heaps(out, &summary.heaps, width)?;
    counters(out, &summary.counters)?;
    machines(out, &summary.machines)?;
    for note in &summary.notes {
        writeln!(out, "\nnote: {}", shown(note))?;
    }
    writeln!(out)?;
    losses(out, summary)
}

fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{HEADING}{text}{HEADING:#}")
}

fn events(out: &mut impl Write, summary: &Summary, width: Option<usize>) -> io::Result<()> {
    if summary.sources.is_empty() {
        return Ok(());
    }
    heading(out, "events")?;
    let name_width = summary
        .sources
        .iter()
        .map(|source| shown(&source.name).chars().count())
        .max()
        .unwrap_or(0);
    for source in &summary.sources {
        let (count, bytes) = (grouped(source.events), human_bytes(source.bytes));
        let head = format!(
            "  {:name_width$}  {count:>13}  {bytes:>10}  ",
            shown(&source.name)
        );
        let free = width.map_or(usize::MAX, |width| width.saturating_sub(head.len()));
        let kinds = if source.name == TRACK_EVENTS {
            track_event_kinds(summary)
        } else {
            (1..=TOP_KINDS)
                .rev()
                .map(|top| kinds(source, top))
                .find(|text| text.len() <= free)
                .unwrap_or_default()
        };
        writeln!(out, "{head}{DIM}{}{DIM:#}", cut(&kinds, free))?;
    }
    Ok(())
}

fn track_event_kinds(summary: &Summary) -> String {
    let counts = &summary.track_events;
    let pairs = [
        ("slice begins", counts.begins),
        ("slice ends", counts.ends),
        ("instants", counts.instants),
        ("counter values", counts.counters),
        ("others", counts.others),
        ("tracks", counts.tracks as u64),
    ];
    let shown = pairs.iter().filter(|(_, count)| *count > 0);
    let shown: Vec<_> = shown
        .map(|(name, count)| format!("{name} {}", grouped(*count)))
        .collect();
    shown.join(", ")
}

/// The `top` most frequent kinds of events, for example `sched_switch 12,345, sched_waking 11,000,
/// 3 more kinds`.
fn kinds(source: &SourceSummary, top: usize) -> String {
    let frequent = source.kinds.iter().take(top);
    let mut parts: Vec<String> = frequent
        .map(|(kind, count)| format!("{} {}", shown(kind), grouped(*count)))
        .collect();
    match source.kinds.len().saturating_sub(top) {
        0 => {}
        more => parts.push(counted(more as u64, "more kind")),
    }
    parts.join(", ")
}

fn cpus(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    if summary.cpus.is_empty() {
        return Ok(());
    }
    heading(out, "CPUs")?;
    // Those of counters have no switches.
    let switches = |switches: Option<u64>| match switches {
        Some(count) => format!("{:>13} {:<8}  ", grouped(count), plural(count, "switch")),
        None => "  ".to_owned(),
    };
    if summary.cpus.len() <= MAX_CPUS {
        for cpu in &summary.cpus {
            let machine = machine_suffix(cpu.machine);
            let busy = share(cpu.busy_ns, cpu.idle_ns);
            let known = of_known(cpu.busy_ns.saturating_add(cpu.idle_ns), cpu.unknown_ns);
            let switches = switches(cpu.switches);
            writeln!(
                out,
                "  CPU {:<3} {switches}{busy} busy{known}{machine}",
                cpu.cpu
            )?;
        }
        return Ok(());
    }
    let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
    let cpus = || summary.cpus.iter();
    let busy_ns = sum(&mut cpus().map(|cpu| cpu.busy_ns));
    let idle_ns = sum(&mut cpus().map(|cpu| cpu.idle_ns));
    let unknown_ns = sum(&mut cpus().map(|cpu| cpu.unknown_ns));
    let busy = share(busy_ns, idle_ns);
    let known = of_known(busy_ns.saturating_add(idle_ns), unknown_ns);
    let counted = cpus().filter_map(|cpu| cpu.switches);
    let count = counted.clone().next().map(|_| sum(&mut counted.clone()));
    writeln!(
        out,
        "  {} CPUs {}{busy} busy{known}",
        summary.cpus.len(),
        switches(count)
    )
}

fn processes(out: &mut impl Write, summary: &Summary, width: Option<usize>) -> io::Result<()> {
    if summary.processes.is_empty() {
        return Ok(());
    }
    heading(out, "top processes by CPU time")?;
    let wall = summary.duration_ns.unwrap_or(0);
    for process in summary.processes.iter().take(TOP_PROCESSES) {
        let of_wall = match wall {
            0 => String::new(),
            wall => format!("{:5.1} %", process.cpu_ns as f64 * 100.0 / wall as f64),
        };
        let head = format!(
            "  {:>10}  {of_wall}  pid {:<7} ",
            duration(process.cpu_ns),
            process.pid
        );
        let name = process_name(&process.name, process.machine);
        let free = width.map_or(usize::MAX, |width| width.saturating_sub(head.len()).max(10));
        writeln!(out, "{head} {}", cut(&name, free.saturating_sub(1)))?;
    }
    let rest = summary.processes.len().saturating_sub(TOP_PROCESSES);
    if rest > 0 {
        let cpu = summary.processes[TOP_PROCESSES..]
            .iter()
            .fold(0u64, |sum, process| sum.saturating_add(process.cpu_ns));
        writeln!(out, "  {:>10}  {DIM}in {rest} more{DIM:#}", duration(cpu))?;
    }
    Ok(())
}

/// The command line without the folder of the program.
fn process_name(name: &str, machine: u32) -> String {
    let name = match name {
        "" => "(no name)",
        name => without_folder(name),
    };
    format!("{}{}", shown(name), machine_suffix(machine))
}

fn without_folder(name: &str) -> &str {
    if !name.starts_with('/') {
        return name;
    }
    let program = name.find(' ').unwrap_or(name.len());
    let folder = name[..program].rfind('/').map_or(0, |slash| slash + 1);
    &name[folder..]
}

fn machine_suffix(machine: u32) -> String {
    match machine {
        0 => String::new(),
        machine => format!(" on machine {machine:#x}"),
    }
}

fn counters(out: &mut impl Write, counters: &[CounterSummary]) -> io::Result<()> {
    if counters.is_empty() {
        return Ok(());
    }
    heading(out, "counters")?;
    let width = counters
        .iter()
        .map(|counter| counter.name.len())
        .max()
        .unwrap_or(0);
    for counter in counters {
        let (name, series) = (counter.name, grouped(counter.series as u64));
        let noun = plural(counter.samples, "sample");
        writeln!(
            out,
            "  {name:width$}  {series:>6} series  {:>9} {noun}",
            grouped(counter.samples)
        )?;
    }
    Ok(())
}

/// Prints other machines and the offsets of their clocks.
fn machines(out: &mut impl Write, machines: &[MachineSummary]) -> io::Result<()> {
    if machines.is_empty() {
        return Ok(());
    }
    heading(out, "machines")?;
    for machine in machines {
        let name = match machine.name.as_str() {
            "" => format!("{:#x}", machine.id),
            name => shown(name).to_string(),
        };
        write!(out, "  {name}  {}", counted(machine.packets, "packet"))?;
        if machine.gaps > 0 {
            write!(out, ", {BAD}gaps{BAD:#} before {}", grouped(machine.gaps))?;
        }
        match machine.clock {
            Some(clock) => {
                let behind = if clock.offset_ns < 0 {
                    "behind"
                } else {
                    "ahead"
                };
                let offset = human_time(clock.offset_ns.unsigned_abs());
                let error = human_time(clock.error_ns);
                write!(out, ", clock {offset} {behind}, known to {error}")?;
                if let Some(drift) = clock.drift_ns_per_s {
                    let ppm = drift as f64 / 1000.0;
                    write!(out, ", drifts by {ppm:+.1} ppm")?;
                }
                writeln!(out)?;
            }
            None => writeln!(out, ", clock not synchronized")?,
        }
    }
    Ok(())
}

/// Prints one line, and the losses.
pub(crate) fn brief(out: &mut impl Write, name: &str, summary: &Summary) -> io::Result<()> {
    write!(out, "{}: {}", shown(name), human_bytes(summary.bytes))?;
    if let Some(ns) = summary.duration_ns {
        write!(out, ", {}", duration(ns))?;
    }
    write!(out, ", {}", counted(summary.packets, "packet"))?;
    let is_complete = summary.is_complete();
    writeln!(out, "{}", if is_complete { ", no data lost" } else { "" })?;
    for note in &summary.notes {
        writeln!(out, "note: {}", shown(note))?;
    }
    if is_complete {
        Ok(())
    } else {
        losses(out, summary)
    }
}

/// Prints the losses and how to avoid them, or that there are none, and warnings.
fn losses(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    // A ring buffer overwrites on purpose, which is not a loss.
    let is_ring = |loss: &&Loss| loss.cause == Cause::Ring;
    let (rings, lost): (Vec<&Loss>, Vec<&Loss>) = summary.losses.iter().partition(is_ring);
    for ring in &rings {
        let (source, amount) = (shown(&ring.source), shown(&ring.amount));
        writeln!(out, "{GOOD}ring{GOOD:#}  {source}: {amount}")?;
        writeln!(out, "      to keep more: {}", shown(&ring.advice))?;
    }
    for reason in summary.health.iter() {
        writeln!(out, "{BAD}not shown{BAD:#}  {}", shown(&reason.to_string()))?;
    }
    for loss in &lost {
        writeln!(out, "{BAD}lost{BAD:#}  {}", shown(&loss.to_string()))?;
        writeln!(out, "      to avoid it: {}", shown(&loss.advice))?;
    }
    for cpu in summary.cpus.iter().filter(|cpu| cpu.missing_switches > 0) {
        let of = cpu
            .switches
            .unwrap_or(0)
            .saturating_add(cpu.missing_switches);
        writeln!(
            out,
            "{BAD}missing{BAD:#}  {} of {} {} on CPU {}{}: the kernel left them out, and what ran there \
             is unknown for {}",
            grouped(cpu.missing_switches),
            grouped(of),
            plural(of, "switch"),
            cpu.cpu,
            machine_suffix(cpu.machine),
            duration(cpu.unknown_ns)
        )?;
    }
    let is_all_shown = summary.health.is_empty();
    match (lost.is_empty() && is_all_shown, summary.losses_known()) {
        (true, true) if !rings.is_empty() => {
            return writeln!(out, "{GOOD}nothing else is missing{GOOD:#}");
        }
        (true, true) => return writeln!(out, "{GOOD}no data lost{GOOD:#}"),
        (false, true) => return Ok(()),
        (true, false) => writeln!(out, "{BAD}no loss is recorded, but there may be one{BAD:#}")?,
        (false, false) => writeln!(out, "{BAD}more may be lost{BAD:#}")?,
    }
    for sentence in &summary.unknown {
        writeln!(out, "      {}", shown(sentence))?;
    }
    Ok(())
}

/// Returns of which part of its time the share of a CPU is, if much of it is unknown.
fn of_known(known_ns: u64, unknown_ns: u64) -> String {
    // Less does not change what it tells.
    const PART: u64 = 100;
    if unknown_ns > known_ns.saturating_add(unknown_ns) / PART {
        let known = share(known_ns, unknown_ns);
        format!(" of the {} whose threads are known", known.trim_start())
    } else {
        String::new()
    }
}

fn share(part: u64, rest: u64) -> String {
    let whole = part as f64 + rest as f64;
    if whole > 0.0 {
        format!("{:5.1} %", part as f64 * 100.0 / whole)
    } else {
        "    - ".to_owned()
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}
