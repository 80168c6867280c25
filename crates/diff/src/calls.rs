//! System calls: their number, and the time that threads ran in them.

use ferretto_tables::StringId;
use ferretto_why::{State, StateKind};
use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::feature::{Feature, Kind};
use crate::values::{Values, WINDOWS};

/// The calls of one name of a thread.
#[derive(Debug, Default)]
struct Calls {
    counts: [i64; WINDOWS],
    time: i64,
}

/// Reads the system calls. Returns the time in nanoseconds in which threads called the kernel but
/// did not run, as switches are missing.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) -> f64 {
    let (tables, strings) = (context.trace.tables(), context.trace.strings());
    let is_calls: Vec<Option<u32>> = (0..tables.track.len())
        .map(|row| match strings.text(tables.track.type_().get(row)) {
            "thread_execution" => tables.track.utid().get(row),
            _ => None,
        })
        .collect();
    let mut all: FxHashMap<(u32, StringId), Calls> = FxHashMap::default();
    let mut unknown = 0.0;
    // By thread: the last state in which it cannot have called the kernel.
    let mut wrong: FxHashMap<u32, i64> = FxHashMap::default();
    // By thread: its next state.
    let schedule = context.why.schedule();
    let mut next: Vec<usize> = vec![0; schedule.threads() as usize];
    for row in 0..tables.slice.len() {
        let track = tables.slice.track_id().get(row) as usize;
        let Some(thread) = is_calls.get(track).copied().flatten() else {
            continue;
        };
        let (time, length) = (tables.slice.ts().get(row), tables.slice.dur().get(row));
        if !context.range.contains(&time) || !context.has_thread(thread) {
            continue;
        }
        let name = tables.slice.name().get(row);
        let calls = all.entry((thread, name)).or_default();
        calls.counts[context.window(time)] += 1;
        let end = time.saturating_add(length.max(0)).min(context.range.end);
        let states = schedule.states(thread);
        let Some(next) = next.get_mut(thread as usize) else {
            continue;
        };
        // A search for each call would take longer than all the rest.
        let state = match states.get(*next) {
            Some(first) if first.start <= time => {
                let mut later = states[*next..].iter();
                let state = later.find(|state| state.end > time);
                state.filter(|state| state.start <= time)
            }
            _ => schedule.state_at(thread, time),
        };
        let state = state.filter(|state| state.kind != StateKind::Running);
        if let Some(state) = state
            && wrong.insert(thread, state.start) != Some(state.start)
        {
            let start = state.start.max(context.range.start);
            unknown += (state.end.min(context.range.end) - start).max(0) as f64;
        }
        calls.time += running(states, next, time, end);
    }
    for ((thread, name), calls) in all {
        let Some(name) = strings.text(name).strip_prefix("sys_") else {
            continue;
        };
        let process = context.process_of(thread);
        let of = |kind| Feature::of_process(kind, &process).detail(name);
        values.add_parts(of(Kind::Calls), &calls.counts);
        values.add(of(Kind::CallTime), calls.time as f64);
    }
    unknown
}

/// Returns the time in which a thread ran in an interval. The intervals of a thread have to be in
/// the order of time; `next` is the first state that may be in the following one.
fn running(states: &[State], next: &mut usize, start: i64, end: i64) -> i64 {
    let mut time = 0;
    while let Some(state) = states.get(*next) {
        if state.start >= end {
            break;
        }
        if state.kind == StateKind::Running {
            time += (state.end.min(end) - state.start.max(start)).max(0);
        }
        if state.end > end {
            break;
        }
        *next += 1;
    }
    time
}
