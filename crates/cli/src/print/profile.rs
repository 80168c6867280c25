//! Callstack samples, for people.

use std::io::{self, Write};

use ferretto_text::amount::{counted, duration, grouped, human_bytes};
use ferretto_trace::profile::{Count, Event, HotFunction, Interval, Share, Value};
use ferretto_trace::summary::ProfileSummary;

use super::{DIM, cut, heading};
use ferretto_text::terminal::shown;

/// The number of functions to show.
const TOP_FUNCTIONS: usize = 15;
/// The number of processes, and of threads, to show.
const TOP_SHARES: usize = 5;
/// The largest width of a library's name that shortens the function's.
const MODULE_WIDTH: usize = 24;

/// Prints a section for samples on the CPU, and one for samples off the CPU.
pub(super) fn profiles(
    out: &mut impl Write,
    profiles: &[ProfileSummary],
    width: Option<usize>,
) -> io::Result<()> {
    for profile in profiles {
        heading(out, &title(profile))?;
        amounts(out, profile)?;
        functions(out, profile, width)?;
        shares(out, profile, width)?;
    }
    Ok(())
}

/// `callstacks by cpu-clock, 99 times a second`.
fn title(profile: &ProfileSummary) -> String {
    if profile.is_off_cpu {
        return "off the CPU, by callstack".to_owned();
    }
    format!(
        "callstacks by {}",
        sampled_by(&profile.event, profile.interval)
    )
}

/// `cpu-clock, 99 times a second`.
pub(crate) fn sampled_by(event: &Event, interval: Interval) -> String {
    let name = match event.name.as_str() {
        "" => "samples",
        name => name,
    };
    let name = shown(name);
    let interval = match interval {
        Interval::Frequency(hz) => format!(", {} a second", counted(hz, "time")),
        Interval::Period(1) => ", each time".to_owned(),
        Interval::Period(period) => format!(", every {} counts", grouped(period)),
        Interval::Poll(_) | Interval::Unknown => String::new(),
    };
    format!("{name}{interval}")
}

/// Returns the amount of samples: their number, or the sum of their weights in the unit of the
/// event. An aggregated profile (`is_added_up`) has no number of samples.
pub(crate) fn sample_amount(
    total: Count,
    value: Value,
    event: &Event,
    is_added_up: bool,
) -> String {
    let samples = counted(total.samples, "sample");
    if value == Value::Samples {
        return samples;
    }
    let amount = weight(total.weight, event);
    if is_added_up {
        amount
    } else {
        format!("{amount} in {samples}")
    }
}

/// Returns an amount in the unit of an event.
fn weight(amount: u64, event: &Event) -> String {
    match unit_noun(event) {
        "ns" => duration(amount),
        "bytes" => human_bytes(amount),
        "samples" => counted(amount, "sample"),
        noun => format!("{} {}", grouped(amount), shown(noun)),
    }
}

/// Returns the unit of an event as a noun: `ns`, `bytes`, `samples`, `cycles`, or the event itself.
pub(crate) fn unit_noun(event: &Event) -> &str {
    match (event.unit.as_str(), event.name.as_str()) {
        ("ns" | "nanoseconds", _) => "ns",
        ("" | "count", "samples" | "") => "samples",
        ("" | "count", name) => name,
        (unit, _) => unit,
    }
}

fn amounts(out: &mut impl Write, profile: &ProfileSummary) -> io::Result<()> {
    let samples = profile.total.samples;
    let mut parts = vec![if profile.is_off_cpu {
        format!(
            "{} by {}",
            duration(profile.total.weight),
            counted(samples, "callstack")
        )
    } else {
        sample_amount(
            profile.total,
            profile.value,
            &profile.event,
            profile.is_added_up,
        )
    }];
    if profile.idle > 0 {
        parts.push(format!("{} more on idle CPUs", grouped(profile.idle)));
    }
    let cut: u64 = profile.truncated.iter().map(|(_, samples)| samples).sum();
    parts.push(match cut {
        0 => "all callstacks complete".to_owned(),
        cut => format!("{} of callstacks truncated", percent(cut, samples)),
    });
    let value = profile.value;
    let (unnamed, total) = (profile.unnamed.value(value), profile.total.value(value));
    if unnamed > 0 {
        parts.push(format!("{} without a name", percent(unnamed, total)));
    }
    writeln!(out, "  {}", parts.join(", "))?;
    for (error, samples) in &profile.truncated {
        writeln!(
            out,
            "  {DIM}cut: {:>9}  {}{DIM:#}",
            grouped(*samples),
            shown(&error.to_string())
        )?;
    }
    Ok(())
}

fn functions(
    out: &mut impl Write,
    profile: &ProfileSummary,
    width: Option<usize>,
) -> io::Result<()> {
    let is_hot = |function: &&HotFunction| share(function.own, profile) != percent(0, 1);
    let top = profile.functions.iter().filter(is_hot);
    let top: Vec<&HotFunction> = top.take(TOP_FUNCTIONS).collect();
    if top.is_empty() {
        return Ok(());
    }
    let module_width = top
        .iter()
        .map(|function| function.module.chars().count().min(MODULE_WIDTH))
        .max()
        .unwrap_or(0);
    writeln!(out, "  {DIM}{:>7}  {:>7}{DIM:#}", "self", "total")?;
    for function in top {
        let (own, total) = (share(function.own, profile), share(function.total, profile));
        let module = cut(&shown(&function.module), MODULE_WIDTH);
        let head = format!("  {own:>7}  {total:>7}  {module:module_width$}  ");
        let free = width.map_or(usize::MAX, |width| width.saturating_sub(head.len()).max(20));
        writeln!(out, "{head}{}", cut(&shown(&function.name), free))?;
    }
    Ok(())
}

/// Prints processes, and threads if there are more than processes.
fn shares(out: &mut impl Write, profile: &ProfileSummary, width: Option<usize>) -> io::Result<()> {
    let lists = [
        ("pid", &profile.processes, true),
        (
            "thread",
            &profile.threads,
            profile.threads.len() > profile.processes.len(),
        ),
    ];
    for (kind, list, is_shown) in lists {
        if !is_shown {
            continue;
        }
        writeln!(out)?;
        for process in list.iter().take(TOP_SHARES) {
            let head = format!(
                "  {:>7}  {kind} {:<7} ",
                share(process.count, profile),
                process.id
            );
            let free = width.map_or(usize::MAX, |width| width.saturating_sub(head.len()).max(10));
            writeln!(out, "{head}{}", cut(&name(process), free))?;
        }
        let more = list.len().saturating_sub(TOP_SHARES);
        if more > 0 {
            writeln!(out, "  {DIM}         and {more} more{DIM:#}")?;
        }
    }
    Ok(())
}

fn name(process: &Share) -> String {
    match process.name.as_str() {
        "" => "(no name)".to_owned(),
        name => shown(super::without_folder(name)).into_owned(),
    }
}

fn share(count: Count, profile: &ProfileSummary) -> String {
    let value = profile.value;
    percent(count.value(value), profile.total.value(value))
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}
