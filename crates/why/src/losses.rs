//! Lost data.

use std::ops::Range;

use ferretto_tables::{Lost, Trace};
use ferretto_text::amount::{counted, duration, grouped, plural};
use rustc_hash::FxHashMap;

use crate::explain::Why;
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
    let all: Vec<(u32, Unknown)> = losses
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
    let mut all = Grouped::new(&all);
    all.for_each_group(|all| all.sort_unstable_by_key(|unknown| unknown.end));
    all
}

/// Adds the running states that events of threads show, within the times before a switch in which
/// their own switch is missing. States of a thread are in the order of time.
pub(crate) fn add_known_runs(trace: &Trace, states: &mut Vec<(u32, State)>) {
    let mut known: FxHashMap<(u32, i64), (i64, u32)> = FxHashMap::default();
    let unknown = unknown(trace);
    for cpu in 0..unknown.groups() {
        for time in unknown.of(cpu).iter().filter(|time| time.since < time.end) {
            known.insert((time.thread, time.end), (time.since, cpu));
        }
    }
    if known.is_empty() {
        return;
    }
    let before = std::mem::take(states);
    for (thread, mut state) in before {
        let run = known.get(&(thread, state.end));
        let run = run.filter(|_| state.kind == StateKind::Lost);
        let Some(&(since, cpu)) = run.filter(|(since, _)| *since >= state.start) else {
            states.push((thread, state));
            continue;
        };
        let run = State {
            start: since,
            kind: StateKind::Running,
            cpu: Some(cpu),
            ..state
        };
        state.end = since;
        states.push((thread, state));
        states.push((thread, run));
    }
}

/// Data that was lost, as the trace tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostData {
    /// The time of the first known event after the loss or of the last one before it.
    pub ts: i64,
    /// The data.
    pub text: String,
}

impl Why<'_> {
    /// Returns the losses within an interval, in the order of time.
    pub fn losses_in(&self, interval: &Range<i64>) -> Vec<LostData> {
        let cpus = &self.trace().tables().cpu;
        let losses = self.trace().losses().iter();
        let losses = losses.filter(|loss| interval.start <= loss.ts && loss.ts <= interval.end);
        let mut lost: Vec<LostData> = losses
            .filter_map(|loss| {
                let text = match loss.lost {
                    Lost::Packets { sequence } => format!("packets of sequence {sequence}"),
                    Lost::KernelEvents { ucpu } => {
                        let cpu = ucpu.and_then(|ucpu| cpus.cpu().get(ucpu));
                        cpu.map_or("kernel events".to_owned(), |cpu| {
                            format!("kernel events of CPU {cpu}")
                        })
                    }
                    // There may be thousands: they are added up below.
                    Lost::Switches { .. } => return None,
                };
                Some(LostData { ts: loss.ts, text })
            })
            .collect();
        let missing = self.trace().missing_switches().iter();
        lost.extend(missing.filter_map(|missing| {
            let all = self.unknown(missing.ucpu);
            let first = all.partition_point(|unknown| unknown.end < interval.start);
            let within = all[first..]
                .iter()
                .take_while(|unknown| unknown.start <= interval.end);
            let (mut count, mut ns, mut ts) = (0_u64, 0_i64, None);
            for unknown in within {
                let (start, end) = (unknown.start.max(interval.start), unknown.end);
                ts.get_or_insert(start);
                count += 1;
                ns = ns.saturating_add(end.min(interval.end).saturating_sub(start).max(0));
            }
            let cpu = cpus.cpu().get(missing.ucpu).unwrap_or(missing.ucpu);
            let text = format!(
                "{} of threads on CPU {cpu} ({} of {} in the trace), which the kernel left out: \
                 what ran there is unknown for {}",
                counted(count, "switch"),
                grouped(missing.missing),
                format_args!("{} {}", grouped(missing.of), plural(missing.of, "switch")),
                duration(ns.unsigned_abs()),
            );
            Some(LostData { ts: ts?, text })
        }));
        lost.sort_by_key(|lost| lost.ts);
        lost
    }
}
