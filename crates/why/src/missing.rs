//! Times in which switches are missing.

use ferretto_tables::{Lost, Trace};
use rustc_hash::FxHashMap;

use crate::grouped::Grouped;
use crate::schedule::{State, StateKind};

/// A time on a CPU before a switch, in which switches are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// The last time at which the running thread is known.
    pub(crate) start: i64,
    /// The time of the switch.
    pub(crate) end: i64,
    /// The thread that ran at the end.
    thread: u32,
    /// The time since which it certainly did.
    since: i64,
}

/// Returns the times in which switches are missing, by CPU.
pub(crate) fn unknown(trace: &Trace) -> Grouped<Unknown> {
    let losses = trace.losses().iter();
    let mut all: Grouped<Unknown> = losses
        .filter_map(|loss| match loss.lost {
            Lost::Switches {
                ucpu,
                from,
                thread,
                since,
            } => {
                let (start, end) = (from.min(loss.ts), loss.ts);
                Some((
                    ucpu,
                    Unknown {
                        start,
                        end,
                        thread,
                        since,
                    },
                ))
            }
            Lost::Packets { .. } | Lost::KernelEvents { .. } => None,
        })
        .collect();
    all.for_each_group(|_, all| all.sort_unstable_by_key(|unknown| unknown.end));
    all
}

/// Adds the running states that events of threads show, within the times before a switch in which
/// their own switch is missing. Returns true if there are any.
pub(crate) fn add_known_runs(trace: &Trace, states: &mut Grouped<State>) -> bool {
    let mut known: FxHashMap<(u32, i64), (i64, u32)> = FxHashMap::default();
    let unknown = unknown(trace);
    for cpu in 0..unknown.groups() {
        for time in unknown.of(cpu).iter().filter(|time| time.since < time.end) {
            known.insert((time.thread, time.end), (time.since, cpu));
        }
    }
    if known.is_empty() {
        return false;
    }
    let mut adds = false;
    states.for_each_group(|thread, states| {
        let is_known = |state: &State| {
            let run = known.get(&(thread, state.end));
            let run = run.filter(|_| state.kind == StateKind::Lost);
            run.copied().filter(|(since, _)| *since >= state.start)
        };
        if !states.iter().any(|state| is_known(state).is_some()) {
            return;
        }
        adds = true;
        let before = std::mem::take(states);
        for mut state in before {
            let Some((since, cpu)) = is_known(&state) else {
                states.push(state);
                continue;
            };
            let run = State {
                start: since,
                kind: StateKind::Running,
                cpu: Some(cpu),
                ..state
            };
            state.end = since;
            states.extend([state, run]);
        }
    });
    adds
}
