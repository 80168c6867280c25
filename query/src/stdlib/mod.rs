//! The prelude and the modules, in SQL of our own.

use std::collections::BTreeMap;

/// Statements that every session begins with.
pub const PRELUDE: &[&str] = &[include_str!("prelude.sql")];

/// Modules by name.
const MODULES: &[(&str, &str)] = &[
    ("counters.intervals", include_str!("counters/intervals.sql")),
    (
        "intervals.intersect",
        include_str!("intervals/intersect.sql"),
    ),
    ("intervals.overlap", include_str!("intervals/overlap.sql")),
    ("linux.block_io", include_str!("linux/block_io.sql")),
    (
        "linux.cpu.frequency",
        include_str!("linux/cpu/frequency.sql"),
    ),
    ("linux.cpu.idle", include_str!("linux/cpu/idle.sql")),
    (
        "linux.cpu.utilization.system",
        include_str!("linux/cpu/utilization/system.sql"),
    ),
    ("linux.irqs", include_str!("linux/irqs.sql")),
    (
        "linux.memory.process",
        include_str!("linux/memory/process.sql"),
    ),
    (
        "linux.memory.high_watermark",
        include_str!("linux/memory/high_watermark.sql"),
    ),
    ("linux.perf.samples", include_str!("linux/perf/samples.sql")),
    ("linux.threads", include_str!("linux/threads.sql")),
    ("sched.latency", include_str!("sched/latency.sql")),
    ("sched.runnable", include_str!("sched/runnable.sql")),
    ("sched.states", include_str!("sched/states.sql")),
    (
        "sched.thread_level_parallelism",
        include_str!("sched/thread_level_parallelism.sql"),
    ),
    (
        "sched.time_in_state",
        include_str!("sched/time_in_state.sql"),
    ),
    ("sched.with_context", include_str!("sched/with_context.sql")),
    ("slices.cpu_time", include_str!("slices/cpu_time.sql")),
    ("slices.self_dur", include_str!("slices/self_dur.sql")),
    (
        "slices.with_context",
        include_str!("slices/with_context.sql"),
    ),
    ("time.conversion", include_str!("time/conversion.sql")),
];

/// Returns the text of every module.
pub fn modules() -> BTreeMap<String, String> {
    MODULES
        .iter()
        .map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned()))
        .collect()
}
