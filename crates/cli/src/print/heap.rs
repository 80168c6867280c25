//! Heap profiles, for people.

use std::io::{self, Write};

use ferretto_text::amount::human_bytes;
use ferretto_text::terminal::shown;
use ferretto_trace::summary::{HeapSite, HeapSummary};

use super::{DIM, cut, grouped, heading, without_folder};

/// The number of heaps to show.
const TOP_HEAPS: usize = 5;
/// The number of functions of each heap.
const TOP_SITES: usize = 10;
/// The largest width of a library's name that shortens the function's.
const MODULE_WIDTH: usize = 24;

pub(super) fn heaps(
    out: &mut impl Write,
    heaps: &[HeapSummary],
    width: Option<usize>,
) -> io::Result<()> {
    if heaps.is_empty() {
        return Ok(());
    }
    heading(out, &title(heaps))?;
    for heap in heaps.iter().take(TOP_HEAPS) {
        one(out, heap, width)?;
    }
    let more = heaps.len().saturating_sub(TOP_HEAPS);
    if more > 0 {
        writeln!(out, "  {DIM}and {more} more heaps{DIM:#}")?;
    }
    Ok(())
}

/// `heap, one sample for 4 KiB`.
fn title(heaps: &[HeapSummary]) -> String {
    let interval = heaps.iter().map(|heap| heap.interval).max().unwrap_or(0);
    match interval {
        0 | 1 => "heap, each allocation".to_owned(),
        interval => format!("heap, a sample for each {}", human_bytes(interval)),
    }
}

fn one(out: &mut impl Write, heap: &HeapSummary, width: Option<usize>) -> io::Result<()> {
    let name = match heap.process.as_str() {
        "" => "(no name)".to_owned(),
        name => shown(without_folder(name)).into_owned(),
    };
    let live = heap.total.leaked();
    // There is no sampling error if each byte is a sample.
    let error = match heap.interval {
        0 | 1 => String::new(),
        interval => format!(", ± {},", human_bytes(error(live.weight, interval))),
    };
    writeln!(
        out,
        "  pid {} {name}, {}: {} not freed{error} of {} allocated",
        heap.pid,
        shown(&heap.heap),
        human_bytes(live.weight),
        human_bytes(heap.total.allocated.weight),
    )?;
    if heap.live.len() > 1 {
        writeln!(out, "  {DIM}at each dump: {}{DIM:#}", growth(&heap.live))?;
    }
    if heap.sites.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  {DIM}{:>10}  {:>10}  {:>7}{DIM:#}",
        "not freed", "growth", "samples"
    )?;
    for site in heap.sites.iter().take(TOP_SITES) {
        line(out, site, heap.live.len() > 1, width)?;
    }
    Ok(())
}

/// Returns the standard deviation of a sum of bytes sampled at an interval.
fn error(bytes: u64, interval: u64) -> u64 {
    (bytes as f64 * interval as f64).sqrt() as u64
}

/// `1.0 MiB, 2.0 MiB, … 9.0 MiB`.
fn growth(live: &[u64]) -> String {
    const ENDS: usize = 4;
    let all: Vec<String> = live.iter().map(|&bytes| human_bytes(bytes)).collect();
    if all.len() > 2 * ENDS {
        let (first, last) = (&all[..ENDS], &all[all.len() - ENDS..]);
        format!("{}, … {}", first.join(", "), last.join(", "))
    } else {
        all.join(", ")
    }
}

fn line(
    out: &mut impl Write,
    site: &HeapSite,
    has_growth: bool,
    width: Option<usize>,
) -> io::Result<()> {
    let growth = match (has_growth, site.growth) {
        (false, _) => String::new(),
        (true, 0) => "0".to_owned(),
        (true, more @ 1..) => format!("+{}", human_bytes(more.unsigned_abs())),
        (true, less) => format!("-{}", human_bytes(less.unsigned_abs())),
    };
    let own = site.function.own;
    let module = cut(&shown(&site.function.module), MODULE_WIDTH);
    let head = format!(
        "  {:>10}  {growth:>10}  {:>7}  {module}  ",
        human_bytes(own.weight),
        grouped(own.samples)
    );
    let free = width.map_or(usize::MAX, |width| width.saturating_sub(head.len()).max(20));
    writeln!(out, "{head}{}", cut(&shown(&site.function.name), free))
}
