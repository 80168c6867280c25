//! The programs that ran beside the compared threads, on other CPUs.

use crate::context::Context;
use crate::values::WINDOWS;

/// The share by which work takes longer on a CPU while the other thread of its core is busy, at
/// most: two threads of a core get little more done than one, and share its caches.
const SHARED_CORE: f64 = 0.8;

/// Returns the share of the other CPUs that other threads had while the compared ones ran. If a
/// command is compared, those are all that do not belong to it.
pub(crate) fn occupied(context: &Context<'_>) -> f64 {
    let table = &context.trace.tables().cpu;
    let schedule = context.why.schedule();
    let of_period = context.command.is_none();
    // The table has rows for CPUs that the machine does not have.
    let is_there = |cpu: &u32| !schedule.runs(*cpu).is_empty();
    let cpus: Vec<u32> = (0..table.len()).filter(is_there).collect();
    // By CPU and window.
    let mut own = vec![[0_i64; WINDOWS]; cpus.len()];
    let mut others = own.clone();
    for ((own, others), cpu) in own.iter_mut().zip(&mut others).zip(&cpus) {
        for run in schedule.runs(*cpu) {
            let is_own = context.has_thread(run.thread);
            context.windows(run.start, run.end, |window, time| {
                own[window] += if is_own { time } else { 0 };
                others[window] += if is_own && !of_period { 0 } else { time };
            });
        }
    }
    let length = context.range.end.saturating_sub(context.range.start).max(1) as f64;
    let elsewhere = (cpus.len() as f64 - 1.0).max(1.0) * length / WINDOWS as f64;
    let (mut ran, mut beside) = (0.0, 0.0);
    for window in 0..WINDOWS {
        let all: i64 = others.iter().map(|others| others[window]).sum();
        for (own, others) in own.iter().zip(&others) {
            let time = own[window] as f64;
            ran += time;
            beside += time * ((all - others[window]) as f64 / elsewhere).min(1.0);
        }
    }
    if ran > 0.0 { beside / ran } else { 0.0 }
}

/// Returns the share of a time on CPUs that it may be longer than in another recording of the same
/// work, as other programs had this share of the other CPUs.
pub(crate) fn slowdown(occupied: f64) -> f64 {
    1.0 - 1.0 / (1.0 + SHARED_CORE * occupied)
}
