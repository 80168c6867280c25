//! The explanation as text: one screen.

use std::io::{self, Write};
use std::ops::Range;

use ferretto_text::amount::{counted, duration, grouped};
use ferretto_text::terminal::shown;
use ferretto_why::{Cause, ExplainedWait, Explanation, Share, Shares, Why};

use super::phrases;
use super::select::Selected;

/// The smallest share that is shown, in thousandths.
const MIN_SHARE: i64 = 10;
/// The number of lines of causes.
const MAX_LINES: usize = 24;
/// The number of levels of causes.
const MAX_LEVELS: usize = 4;
/// The number of threads that are shown that had a CPU.
const MAX_OTHERS: usize = 3;
/// The number of waits that are shown.
const MAX_WAITS: usize = 3;
/// The number of losses that are shown.
const MAX_LOSSES: usize = 5;

pub(super) fn explanation(
    out: &mut impl Write,
    why: &Why<'_>,
    selected: &Selected,
    explanation: &Explanation,
    shares: &Shares,
) -> io::Result<()> {
    headline(out, why, selected, shares)?;
    writeln!(out)?;
    let mut lines = MAX_LINES;
    causes(out, why, &shares.causes, shares.ns, 0, &mut lines)?;
    longest_waits(out, why, explanation)?;
    losses(out, why, &selected.interval)?;
    missing(out, why)
}

fn headline(
    out: &mut impl Write,
    why: &Why<'_>,
    selected: &Selected,
    shares: &Shares,
) -> io::Result<()> {
    let zero = why.trace().tables().trace_bounds.start_ts().get(0);
    let label = why.thread_label(selected.thread);
    let at = time((selected.interval.start - zero).max(0));
    match selected.slice {
        Some(slice) => {
            let name = why.trace().tables().slice.name().get(slice);
            let name = shown(why.trace().strings().text(name));
            write!(out, "{name} (slice {slice}) of {}", shown(&label))?;
        }
        None => write!(out, "{}", shown(&label))?,
    }
    write!(out, ", {} from {at} on", time(shares.ns))?;
    match &selected.reason {
        Some(reason) => writeln!(out, ": {reason}")?,
        None => writeln!(out)?,
    }
    let Some(first) = shares.causes.first() else {
        return Ok(());
    };
    write!(
        out,
        "{} of it: {}",
        percent(first.ns, shares.ns),
        phrases::of_cause(why, first.cause)
    )?;
    // The causes of a wait, as long as one of them explains the most of it.
    let mut share = first;
    while let Some(inner) = share.inner.first()
        && inner.ns * 2 > share.ns
        && inner.cause != share.cause
    {
        if matches!(share.cause, Cause::Cpu | Cause::Calls) {
            write!(out, "; mostly {}", phrases::of_cause(why, inner.cause))?;
            break;
        }
        let label = why.thread_label(inner.thread);
        write!(
            out,
            ";\nmeanwhile {} mostly {}",
            shown(&label),
            phrases::of_cause(why, inner.cause)
        )?;
        share = inner;
    }
    if !matches!(share.cause, Cause::Wait(..))
        && let Some((function, _)) = why.functions_of_share(share).first()
    {
        write!(out, " (mostly {})", shown(function))?;
    }
    writeln!(out)
}

fn causes(
    out: &mut impl Write,
    why: &Why<'_>,
    shares: &[Share],
    total: i64,
    level: usize,
    lines: &mut usize,
) -> io::Result<()> {
    let is_shown =
        |share: &&Share| share.ns.saturating_mul(1000) >= total.saturating_mul(MIN_SHARE);
    let mut rest = (0, 0_i64);
    let mut others = 0;
    for share in shares {
        let is_other = matches!(share.cause, Cause::Behind(_));
        others += usize::from(is_other);
        if *lines == 0 || !is_shown(&share) || (is_other && others > MAX_OTHERS) {
            rest = (rest.0 + 1, rest.1 + share.ns);
            continue;
        }
        *lines -= 1;
        let indent = "  ".repeat(level);
        let actor = match share.cause {
            _ if level == 0 => String::new(),
            Cause::Behind(_) | Cause::Wakeup | Cause::Idle(_) | Cause::Call(_) | Cause::Entry => {
                String::new()
            }
            _ => format!("{} ", shown(&why.thread_label(share.thread))),
        };
        write!(
            out,
            "{:>7}  {:>10}  {indent}{actor}{}",
            percent(share.ns, total),
            time(share.ns),
            phrases::of_cause(why, share.cause)
        )?;
        match share.cause {
            Cause::Wait(..) if share.count > 1 => {
                write!(out, ", {}", counted(share.count, "wait"))?;
            }
            Cause::Call(_) if share.count > 1 => write!(out, ", {} times", grouped(share.count))?,
            _ => {}
        }
        let functions = why.functions_of_share(share);
        if !matches!(share.cause, Cause::Wait(..)) && !functions.is_empty() {
            let names = functions
                .iter()
                .take(2)
                .map(|(name, ns)| format!("{} {}", shown(name), percent(*ns, share.ns)));
            write!(out, ": {}", names.collect::<Vec<_>>().join(", "))?;
        }
        writeln!(out)?;
        if level + 1 < MAX_LEVELS {
            causes(out, why, &share.inner, total, level + 1, lines)?;
        }
    }
    let is_of_cpu = others > MAX_OTHERS;
    if rest.0 > 0 && (level == 0 || is_of_cpu) {
        let what = if is_of_cpu {
            "other thread"
        } else {
            "other cause"
        };
        let indent = "  ".repeat(level);
        writeln!(
            out,
            "{:>7}  {:>10}  {indent}{}",
            percent(rest.1, total),
            time(rest.1),
            counted(rest.0, what)
        )?;
    }
    Ok(())
}

fn longest_waits(out: &mut impl Write, why: &Why<'_>, explanation: &Explanation) -> io::Result<()> {
    let waits = &explanation.waits;
    let length = |wait: &ExplainedWait| wait.wait.end - wait.wait.start;
    let mut own: Vec<usize> = (0..waits.len())
        .filter(|at| waits[*at].wait.parent.is_none())
        .collect();
    own.sort_by_key(|at| (-length(&waits[*at]), *at));
    if own.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nLongest waits")?;
    let zero = why.trace().tables().trace_bounds.start_ts().get(0);
    for at in own.into_iter().take(MAX_WAITS) {
        let mut at = at;
        let mut level = 0;
        loop {
            let wait = &waits[at];
            let indent = "  ".repeat(level);
            write!(out, "  {indent}{:>9}", time(length(wait)))?;
            if level == 0 {
                write!(out, " at {}", time((wait.wait.start - zero).max(0)))?;
            }
            write!(
                out,
                "  {} {}",
                shown(&why.thread_label(wait.wait.thread)),
                phrases::of_wait(why, wait)
            )?;
            if let Some(call) = wait.call {
                write!(
                    out,
                    ", in {}",
                    phrases::call(why.trace().strings().text(call))
                )?;
            }
            writeln!(out)?;
            if let Some(callsite) = wait.callsite {
                let stack = phrases::waiting_stack(&why.waiting_functions(callsite));
                writeln!(out, "  {indent}           {stack}")?;
            }
            if let (Some(waker), Some(callsite)) = (wait.waker(), wait.waker_callsite) {
                let stack = phrases::stack(&why.functions(callsite), 4);
                let waker = why.thread_label(waker);
                writeln!(
                    out,
                    "  {indent}           woken by {} near {stack}",
                    shown(&waker)
                )?;
            }
            let parent = at;
            let inner = (parent + 1..waits.len())
                .take_while(|inner| waits[*inner].wait.depth > waits[parent].wait.depth)
                .filter(|inner| waits[*inner].wait.parent == Some(parent as u32))
                .max_by_key(|inner| length(&waits[*inner]));
            match inner {
                Some(inner) if level < 3 && length(&waits[inner]) * 10 > length(wait) => at = inner,
                _ => {
                    meanwhile(out, why, explanation, parent, level + 1)?;
                    break;
                }
            }
            level += 1;
        }
    }
    Ok(())
}

/// Writes what the thread that ended a wait did most of the time.
fn meanwhile(
    out: &mut impl Write,
    why: &Why<'_>,
    explanation: &Explanation,
    wait: usize,
    level: usize,
) -> io::Result<()> {
    let span = explanation.waits[wait].wait;
    let of_wait = explanation
        .pieces
        .iter()
        .filter(|piece| piece.wait == Some(wait as u32) && piece.thread != span.thread);
    let longest = of_wait.max_by_key(|piece| piece.end - piece.start);
    let Some(piece) = longest else {
        return Ok(());
    };
    let indent = "  ".repeat(level);
    writeln!(
        out,
        "  {indent}{:>9}  {} {}",
        time(piece.end - piece.start),
        shown(&why.thread_label(piece.thread)),
        match piece.cause {
            Cause::Behind(_) | Cause::Wakeup | Cause::Idle(_) => {
                let cause = phrases::of_cause(why, piece.cause);
                format!("waited for a CPU: {cause}")
            }
            cause => phrases::of_cause(why, cause),
        }
    )?;
    if let Some(callsite) = piece.callsite {
        let stack = phrases::stack(&why.functions(callsite), 6);
        writeln!(out, "  {indent}           {stack}")?;
    }
    Ok(())
}

/// Names the data that was lost.
fn losses(out: &mut impl Write, why: &Why<'_>, interval: &Range<i64>) -> io::Result<()> {
    let losses = why.losses_in(interval);
    if losses.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nLost in this time, so causes may be wrong (ferretto summary tells how to avoid it)"
    )?;
    let zero = why.trace().tables().trace_bounds.start_ts().get(0);
    for loss in losses.iter().take(MAX_LOSSES) {
        writeln!(out, "  at {}: {}", time((loss.ts - zero).max(0)), loss.text)?;
    }
    if losses.len() > MAX_LOSSES {
        writeln!(
            out,
            "  {} more",
            grouped((losses.len() - MAX_LOSSES) as u64)
        )?;
    }
    Ok(())
}

/// Names the data that the trace lacks.
pub(super) fn missing(out: &mut impl Write, why: &Why<'_>) -> io::Result<()> {
    let lacks = why.recorded().missing();
    if lacks.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nMissing in this trace (ferretto record --why records all)"
    )?;
    for missing in lacks {
        writeln!(out, "  {missing}")?;
    }
    Ok(())
}

pub(super) fn time(ns: i64) -> String {
    duration(u64::try_from(ns).unwrap_or(0))
}

pub(super) fn percent(part: i64, whole: i64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}
