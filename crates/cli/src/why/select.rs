//! The interval to explain.

use std::ops;

use anyhow::{Result, bail};
use ferretto_text::amount::{counted, duration};
use ferretto_text::terminal::shown;
use ferretto_why::{StateKind, Why};

use super::WhyArgs;

/// The interval to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected {
    /// The thread: `thread.id`.
    pub(super) thread: u32,
    /// The interval in nanoseconds.
    pub(super) interval: ops::Range<i64>,
    /// The slice: `slice.id`.
    pub(super) slice: Option<u32>,
    /// The reason for the choice, if the command line left it open.
    pub(super) reason: Option<String>,
}

/// Returns the interval that the command line selects.
pub(super) fn select(why: &Why<'_>, args: &WhyArgs) -> Result<Selected> {
    let zero = why.trace().tables().trace_bounds.start_ts().get(0);
    let mut selected = match &args.slice {
        Some(slice) => of_slice(why, slice, args)?,
        None => of_thread(why, args)?,
    };
    let whole = selected.interval.clone();
    if let Some(range) = args.range {
        selected.interval = range.of(selected.interval, zero);
    }
    if selected.interval.is_empty() {
        let label = why.thread_label(selected.thread);
        let after = |ts: i64| duration(ts.saturating_sub(zero).max(0).cast_unsigned());
        bail!(
            "{} has no events in this range: it lasts from {} to {} after the first event of the trace",
            shown(&label),
            after(whole.start),
            after(whole.end),
        );
    }
    Ok(selected)
}

/// A slice of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instance {
    /// The slice: `slice.id`.
    pub(super) slice: u32,
    /// The thread: `thread.id`.
    pub(super) thread: u32,
    pub(super) start: i64,
    pub(super) end: i64,
}

impl Instance {
    pub(super) fn dur(&self) -> i64 {
        self.end - self.start
    }

    pub(super) fn interval(&self) -> ops::Range<i64> {
        self.start..self.end
    }
}

/// Returns the slices of threads with a name, or the slice with an id, the longest first.
///
/// # Errors
///
/// Fails if there are none.
pub(super) fn instances(why: &Why<'_>, wanted: &str, args: &WhyArgs) -> Result<Vec<Instance>> {
    let tables = why.trace().tables();
    let slices = &tables.slice;
    let id = wanted.parse::<u32>().ok().filter(|id| *id < slices.len());
    let name = why.trace().strings().find(wanted);
    let is_wanted = |row: u32| match id {
        Some(id) => row == id,
        None => name == Some(slices.name().get(row)),
    };
    let zero = tables.trace_bounds.start_ts().get(0);
    let (mut without_thread, mut outside) = (false, 0);
    let mut found = Vec::new();
    for row in (0..slices.len()).filter(|row| is_wanted(*row)) {
        let track = slices.track_id().get(row);
        let Some(thread) = tables.track.utid().get(track) else {
            without_thread = true;
            continue;
        };
        if args.pid.is_some_and(|pid| pid_of(why, thread) != Some(pid)) {
            continue;
        }
        let start = slices.ts().get(row);
        let end = match slices.dur().get(row) {
            dur @ 0.. => start.saturating_add(dur),
            _ => tables.trace_bounds.end_ts().get(0).max(start),
        };
        if args
            .range
            .is_some_and(|range| range.of(start..end, zero).is_empty())
        {
            outside += 1;
            continue;
        }
        found.push(Instance {
            slice: row,
            thread,
            start,
            end,
        });
    }
    let shown = shown(wanted);
    match (found.is_empty(), without_thread) {
        (false, _) => {}
        (true, _) if outside > 0 => {
            bail!(
                "the trace has {} {shown}, but not in this range",
                counted(outside, "slice")
            )
        }
        (true, true) => bail!(
            "the slices {shown} belong to no thread; select a thread with --thread and a time with --range"
        ),
        (true, false) => bail!("the trace has no slice {shown}"),
    }
    found.sort_by_key(|instance| (-instance.dur(), instance.slice));
    Ok(found)
}

/// Returns the longest slice of a name, or the slice with an id.
fn of_slice(why: &Why<'_>, wanted: &str, args: &WhyArgs) -> Result<Selected> {
    let found = instances(why, wanted, args)?;
    let count = found.len();
    let longest = found[0];
    Ok(Selected {
        thread: longest.thread,
        interval: longest.interval(),
        slice: Some(longest.slice),
        reason: (count > 1)
            .then(|| format!("the longest of {count} slices of this name; --worst compares them")),
    })
}

fn of_thread(why: &Why<'_>, args: &WhyArgs) -> Result<Selected> {
    let tables = why.trace().tables();
    let strings = why.trace().strings();
    let tid = args.thread.as_deref().and_then(|text| text.parse().ok());
    let is_wanted = |thread: u32| match &args.thread {
        None => true,
        Some(name) => {
            strings.text(tables.thread.name().get(thread)) == name
                || tid == Some(tables.thread.tid().get(thread))
        }
    };
    let of_process = |thread: u32| args.pid.is_none_or(|pid| pid_of(why, thread) == Some(pid));
    let is_named = args.thread.is_some() || args.pid.is_some();
    let threads = 0..tables.thread.len().min(why.schedule().threads());
    let candidates = threads.filter(|thread| {
        is_wanted(*thread)
            && of_process(*thread)
            && !why.schedule().states(*thread).is_empty()
            && (is_named || !(why.is_kernel_thread(*thread) || why.is_recorder(*thread)))
    });
    let candidates: Vec<u32> = candidates.collect();
    let busiest = |threads: &[u32]| {
        let threads = threads.iter().copied();
        threads.max_by_key(|thread| (running(why, *thread), std::cmp::Reverse(*thread)))
    };
    let of_command: Vec<u32> = if is_named {
        Vec::new()
    } else {
        candidates
            .iter()
            .copied()
            .filter(|thread| why.is_command(*thread))
            .collect()
    };
    let busiest = busiest(&of_command).or_else(|| busiest(&candidates));
    let Some(thread) = busiest else {
        bail!("the trace has no scheduling events of such a thread");
    };
    let reason = match (&args.thread, args.pid) {
        _ if candidates.len() == 1 => None,
        (Some(_), _) => Some(format!("the busiest of {} such threads", candidates.len())),
        (None, Some(_)) => Some("the busiest thread of the process".to_owned()),
        (None, None) if !of_command.is_empty() => Some("the recorded command".to_owned()),
        (None, None) => Some("the busiest thread of the trace".to_owned()),
    };
    Ok(Selected {
        thread,
        interval: why.lifetime(thread),
        slice: None,
        reason,
    })
}

/// Returns the time in which a thread ran.
fn running(why: &Why<'_>, thread: u32) -> i64 {
    let states = why.schedule().states(thread).iter();
    let running = states.filter(|state| state.kind == StateKind::Running);
    running.map(|state| state.end - state.start).sum()
}

fn pid_of(why: &Why<'_>, thread: u32) -> Option<i64> {
    let tables = why.trace().tables();
    let process = tables.thread.upid().get(thread)?;
    Some(tables.process.pid().get(process))
}
