//! Modules that only this engine has, or has in another form than the engine for many traces: their
//! SQL is SQLite's, or uses operators of this engine.

mod absent;

use std::collections::BTreeSet;

pub(crate) use self::absent::{Unread, register as register_absent};

macro_rules! modules {
    ($($name:literal: $file:literal,)*) => {
        /// The modules by name.
        pub(crate) const MODULES: &[(&str, &str)] = &[$(($name, include_str!($file)),)*];
    };
}

modules! {
    "android.aflags": "android/aflags.sql",
    "android.battery.charging_states": "android/battery/charging_states.sql",
    "android.battery.doze": "android/battery/doze.sql",
    "android.cpu.cpu_per_uid": "android/cpu/cpu_per_uid.sql",
    "android.frames.jank_type": "android/frames/jank_type.sql",
    "android.frames.per_frame_metrics": "android/frames/per_frame_metrics.sql",
    "android.frames.timeline": "android/frames/timeline.sql",
    "android.frames.timeline_maxsdk28": "android/frames/timeline_maxsdk28.sql",
    "android.io": "android/io.sql",
    "android.kernel_wakelocks": "android/kernel_wakelocks.sql",
    "android.memory.dmabuf_spans": "android/memory/dmabuf_spans.sql",
    "android.memory.heap_graph.bitmap": "android/memory/heap_graph/bitmap.sql",
    "android.memory.heap_graph.class_relationship": "android/memory/heap_graph/class_relationship.sql",
    "android.memory.heap_graph.class_summary_tree": "android/memory/heap_graph/class_summary_tree.sql",
    "android.memory.heap_graph.class_tree": "android/memory/heap_graph/class_tree.sql",
    "android.memory.heap_graph.dominator_class_tree": "android/memory/heap_graph/dominator_class_tree.sql",
    "android.memory.heap_graph.dominator_tree": "android/memory/heap_graph/dominator_tree.sql",
    "android.memory.heap_graph.excluded_refs": "android/memory/heap_graph/excluded_refs.sql",
    "android.memory.heap_graph.heap_graph_class_aggregation": "android/memory/heap_graph/heap_graph_class_aggregation.sql",
    "android.memory.heap_graph.heap_graph_stats": "android/memory/heap_graph/heap_graph_stats.sql",
    "android.memory.heap_graph.helpers": "android/memory/heap_graph/helpers.sql",
    "android.memory.heap_graph.object_tree": "android/memory/heap_graph/object_tree.sql",
    "android.memory.heap_graph.oome": "android/memory/heap_graph/oome.sql",
    "android.memory.heap_graph.raw_dominator_tree": "android/memory/heap_graph/raw_dominator_tree.sql",
    "android.memory.heap_profile.callstacks": "android/memory/heap_profile/callstacks.sql",
    "android.memory.heap_profile.summary_tree": "android/memory/heap_profile/summary_tree.sql",
    "android.package_lookup": "android/package_lookup.sql",
    "android.process_metadata": "android/process_metadata.sql",
    "android.screen_state": "android/screen_state.sql",
    "android.user_list": "android/user_list.sql",
    "android.winscope.inputmethod": "android/winscope/inputmethod.sql",
    "android.winscope.rect": "android/winscope/rect.sql",
    "android.winscope.surfaceflinger": "android/winscope/surfaceflinger.sql",
    "android.winscope.transitions": "android/winscope/transitions.sql",
    "android.winscope.viewcapture": "android/winscope/viewcapture.sql",
    "android.winscope.windowmanager": "android/winscope/windowmanager.sql",
    "android.version": "android/version.sql",
    "callstacks.symbolize": "callstacks/symbolize.sql",
    "counters.global_tracks": "counters/global_tracks.sql",
    "counters.intervals": "counters/intervals.sql",
    "export.to_firefox_profile": "export/to_firefox_profile.sql",
    "intervals.create_intervals": "intervals/create_intervals.sql",
    "intervals.mipmap": "intervals/mipmap.sql",
    "linux.cpu.utilization.periods": "linux/cpu/utilization/periods.sql",
    "linux.cpu.utilization.slice": "linux/cpu/utilization/slice.sql",
    "linux.memory.general": "linux/memory/general.sql",
    "linux.memory.process": "linux/memory/process.sql",
    "sched.latency": "sched/latency.sql",
    "sched.runnable": "sched/runnable.sql",
    "sched.states": "sched/states.sql",
    "sched.thread_executing_span": "sched/thread_executing_span.sql",
    "sched.thread_executing_span_with_slice": "sched/thread_executing_span_with_slice.sql",
    "sched.thread_level_parallelism": "sched/thread_level_parallelism.sql",
    "sched.thread_state_flattened": "sched/thread_state_flattened.sql",
    "sched.time_in_state": "sched/time_in_state.sql",
    "sched.with_context": "sched/with_context.sql",
    "slices.flat_slices": "slices/flat_slices.sql",
    "slices.flow": "slices/flow.sql",
    "slices.time_in_state": "slices/time_in_state.sql",
    "slices.with_context": "slices/with_context.sql",
    "std.traceinfo.trace": "std/traceinfo/trace.sql",
    "viz.flamegraph": "viz/flamegraph.sql",
    "viz.slices": "viz/slices.sql",
    "viz.summary.counters": "viz/summary/counters.sql",
    "viz.summary.processes": "viz/summary/processes.sql",
    "viz.summary.slices": "viz/summary/slices.sql",
    "viz.summary.threads": "viz/summary/threads.sql",
    "viz.summary.trace": "viz/summary/trace.sql",
    "viz.threads": "viz/threads.sql",
    "viz.track_event_callstacks": "viz/track_event_callstacks.sql",
}

/// SQL that every session of this engine has, in addition to that of both engines.
pub(crate) const PRELUDE: &str = include_str!("prelude.sql");

/// Modules of which a part is the same for both engines.
const SHARED: &[(&str, &str)] = &[
    (
        "intervals.overlap",
        concat!(
            include_str!("../stdlib/intervals/overlap.sql"),
            include_str!("intervals/roots.sql")
        ),
    ),
    (
        "linux.cpu.utilization.general",
        concat!(
            include_str!("../stdlib/linux/cpu/utilization/general.sql"),
            include_str!("linux/cpu/utilization/cycles.sql")
        ),
    ),
];

/// SQL that this engine adds to modules of both engines.
pub(crate) const ADDED: &[(&str, &str)] = &[
    ("android.input", include_str!("android/input.sql")),
    (
        "android.cpu.cluster_type",
        include_str!("android/cpu/cluster_type.sql"),
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
        "linux.perf.counters",
        include_str!("linux/perf/counters.sql"),
    ),
    ("slices.cpu_time", include_str!("slices/cpu_time.sql")),
];

/// Modules that upstream's modules include and these do not need. Statements may use what they
/// define.
pub(crate) const INCLUDED: &[(&str, &[&str])] = &[
    (
        "android.cujs.sysui_cujs",
        &["android.frames.timeline", "android.cujs.base"],
    ),
    ("android.cpu.cluster_type", &["intervals.intersect"]),
    ("android.gpu.memory", &["linux.memory.general"]),
    ("android.network_packets", &["std.metasql.unparenthesize"]),
    ("callstacks.stack_profile", &["v8.jit"]),
    ("intervals.fill_gaps", &["std.metasql.unparenthesize"]),
    (
        "intervals.overlap",
        &["intervals.intersect", "std.metasql.unparenthesize"],
    ),
    ("linux.block_io", &["intervals.overlap"]),
    ("linux.cpu.idle_time_in_state", &["time.conversion"]),
    (
        "linux.cpu.utilization.process",
        &[
            "linux.cpu.utilization.thread_cpu",
            "time.conversion",
            "intervals.intersect",
        ],
    ),
    (
        "linux.cpu.utilization.system",
        &[
            "linux.cpu.utilization.thread_cpu",
            "time.conversion",
            "intervals.intersect",
        ],
    ),
    (
        "linux.cpu.utilization.thread",
        &[
            "linux.cpu.utilization.thread_cpu",
            "time.conversion",
            "intervals.intersect",
        ],
    ),
    ("linux.cpu.utilization.thread_cpu", &["intervals.intersect"]),
    ("linux.memory.high_watermark", &["counters.intervals"]),
    (
        "pixel.camera",
        &["counters.global_tracks", "linux.memory.process"],
    ),
    ("sched.thread_executing_span", &["intervals.overlap"]),
    ("slices.flow", &["graphs.search"]),
    ("slices.stack", &["slices.hierarchy"]),
    ("viz.flamegraph", &["std.metasql.unparenthesize"]),
    ("viz.summary.track_event", &["viz.track_event_callstacks"]),
];

/// Modules whose macros are operators, which always exist.
const OPERATORS: &[&str] = &[
    "graphs.dominator_tree",
    "graphs.hierarchy",
    "graphs.partition",
    "graphs.scan",
    "std.trees.table_conversion",
];

/// Returns the modules with their SQL.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    let operators = OPERATORS.iter().map(|name| (*name, ""));
    let own = MODULES.iter().chain(SHARED).copied().chain(operators);
    let own = own.map(|(name, sql)| (name.to_owned(), sql.to_owned()));
    absent::all().into_iter().chain(own)
}

/// Returns the names of the modules that can be included, sorted.
pub fn names() -> Vec<String> {
    let absent: BTreeSet<String> = absent::all().into_iter().map(|(name, _)| name).collect();
    let own = MODULES
        .iter()
        .chain(SHARED)
        .map(|(name, _)| *name)
        .chain(OPERATORS.iter().copied());
    let mut names: BTreeSet<String> = crate::stdlib::modules().into_keys().collect();
    names.retain(|name| !absent.contains(name));
    names.extend(own.map(str::to_owned));
    names.into_iter().collect()
}
