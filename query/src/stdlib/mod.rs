//! The prelude and the modules, in our own SQL.

use std::collections::BTreeMap;

/// The statements that every session starts with.
pub const PRELUDE: &[&str] = &[include_str!("prelude.sql")];

/// The modules by name.
const MODULES: &[(&str, &str)] = &[
    ("android.battery", include_str!("android/battery.sql")),
    (
        "android.battery_stats",
        include_str!("android/battery_stats.sql"),
    ),
    (
        "android.cpu.cluster_type",
        include_str!("android/cpu/cluster_type.sql"),
    ),
    (
        "android.cujs.sysui_cujs",
        include_str!("android/cujs/sysui_cujs.sql"),
    ),
    ("android.device", include_str!("android/device.sql")),
    ("android.dvfs", include_str!("android/dvfs.sql")),
    (
        "android.entity_state_residency",
        include_str!("android/entity_state_residency.sql"),
    ),
    (
        "android.gpu.frequency",
        include_str!("android/gpu/frequency.sql"),
    ),
    ("android.gpu.memory", include_str!("android/gpu/memory.sql")),
    (
        "android.memory.dmabuf",
        include_str!("android/memory/dmabuf.sql"),
    ),
    (
        "android.memory.heap_profile.intervals",
        include_str!("android/memory/heap_profile/intervals.sql"),
    ),
    ("android.memory.lmk", include_str!("android/memory/lmk.sql")),
    (
        "android.memory.memory_breakdown",
        include_str!("android/memory/memory_breakdown.sql"),
    ),
    (
        "android.network_packets",
        include_str!("android/network_packets.sql"),
    ),
    (
        "android.oom_adjuster",
        include_str!("android/oom_adjuster.sql"),
    ),
    (
        "android.power_rails",
        include_str!("android/power_rails.sql"),
    ),
    ("android.suspend", include_str!("android/suspend.sql")),
    (
        "callstacks.stack_profile",
        include_str!("callstacks/stack_profile.sql"),
    ),
    ("counters.intervals", include_str!("counters/intervals.sql")),
    ("graphs.search", include_str!("graphs/search.sql")),
    (
        "intervals.create_intervals",
        include_str!("intervals/create_intervals.sql"),
    ),
    (
        "intervals.fill_gaps",
        include_str!("intervals/fill_gaps.sql"),
    ),
    (
        "intervals.intersect",
        include_str!("intervals/intersect.sql"),
    ),
    (
        "intervals.overlap",
        concat!(
            include_str!("intervals/overlap.sql"),
            include_str!("intervals/roots.sql")
        ),
    ),
    ("linux.block_io", include_str!("linux/block_io.sql")),
    (
        "linux.cpu.frequency",
        include_str!("linux/cpu/frequency.sql"),
    ),
    ("linux.cpu.idle", include_str!("linux/cpu/idle.sql")),
    (
        "linux.cpu.idle_stats",
        include_str!("linux/cpu/idle_stats.sql"),
    ),
    (
        "linux.cpu.idle_time_in_state",
        include_str!("linux/cpu/idle_time_in_state.sql"),
    ),
    (
        "linux.cpu.utilization.general",
        concat!(
            include_str!("linux/cpu/utilization/general.sql"),
            include_str!("linux/cpu/utilization/cycles.sql")
        ),
    ),
    (
        "linux.cpu.utilization.periods",
        include_str!("linux/cpu/utilization/periods.sql"),
    ),
    (
        "linux.cpu.utilization.process",
        include_str!("linux/cpu/utilization/process.sql"),
    ),
    (
        "linux.cpu.utilization.slice",
        include_str!("linux/cpu/utilization/slice.sql"),
    ),
    (
        "linux.cpu.utilization.system",
        include_str!("linux/cpu/utilization/system.sql"),
    ),
    (
        "linux.cpu.utilization.thread",
        include_str!("linux/cpu/utilization/thread.sql"),
    ),
    (
        "linux.cpu.utilization.thread_cpu",
        include_str!("linux/cpu/utilization/thread_cpu.sql"),
    ),
    ("linux.devfreq", include_str!("linux/devfreq.sql")),
    ("linux.irqs", include_str!("linux/irqs.sql")),
    (
        "linux.memory.high_watermark",
        include_str!("linux/memory/high_watermark.sql"),
    ),
    (
        "linux.memory.process",
        include_str!("linux/memory/process.sql"),
    ),
    (
        "linux.perf.counters",
        include_str!("linux/perf/counters.sql"),
    ),
    ("linux.perf.samples", include_str!("linux/perf/samples.sql")),
    (
        "linux.systemd_journald",
        include_str!("linux/systemd_journald.sql"),
    ),
    ("linux.threads", include_str!("linux/threads.sql")),
    ("pixel.camera", include_str!("pixel/camera.sql")),
    ("pkvm.hypervisor", include_str!("pkvm/hypervisor.sql")),
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
    ("slices.flat_slices", include_str!("slices/flat_slices.sql")),
    ("slices.hierarchy", include_str!("slices/hierarchy.sql")),
    ("slices.self_dur", include_str!("slices/self_dur.sql")),
    ("slices.stack", include_str!("slices/stack.sql")),
    (
        "slices.time_in_state",
        include_str!("slices/time_in_state.sql"),
    ),
    (
        "slices.with_context",
        include_str!("slices/with_context.sql"),
    ),
    (
        "stacks.cpu_profiling",
        include_str!("stacks/cpu_profiling.sql"),
    ),
    (
        "stacks.symbolization_candidates",
        include_str!("stacks/symbolization_candidates.sql"),
    ),
    ("std.gpu.context", include_str!("std/gpu/context.sql")),
    (
        "std.metasql.unparenthesize",
        include_str!("std/metasql/unparenthesize.sql"),
    ),
    (
        "std.thread.with_context",
        include_str!("std/thread/with_context.sql"),
    ),
    (
        "std.traceinfo.metadata_for_primary_scope",
        include_str!("std/traceinfo/metadata_for_primary_scope.sql"),
    ),
    ("time.conversion", include_str!("time/conversion.sql")),
    ("traced.stats", include_str!("traced/stats.sql")),
    (
        "viz.summary.track_event",
        include_str!("viz/summary/track_event.sql"),
    ),
    ("viz.threads", include_str!("viz/threads.sql")),
];

/// Returns the modules by name.
pub fn modules() -> BTreeMap<String, String> {
    MODULES
        .iter()
        .map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned()))
        .collect()
}
