//! The kinds of statements that the Perfetto UI sends: one that fails while it loads a trace leaves
//! the user without a timeline.

use crate::common::{Session, TRACE, over};
use crate::modules::SWITCHES;
use crate::profiles::PROFILE;

/// The types of columns and arguments that the UI knows. It opens no trace after another one.
const TYPES: [&str; 12] = [
    "ARGSETID",
    "BOOL",
    "BOOLEAN",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "FLOAT",
    "ID",
    "INT",
    "LONG",
    "STRING",
    "TIMESTAMP",
];

/// Statements of the load of a trace: bounds, summaries, and the tracks to show.
const LOAD: &[&str] = &[
    "SELECT start_ts AS startTs, end_ts AS endTs FROM trace_bounds",
    "SELECT * FROM ftrace_event LIMIT 1",
    "INCLUDE PERFETTO MODULE std.traceinfo.trace;
     SELECT DISTINCT trace_type AS str_value FROM _metadata_by_trace",
    "SELECT sum(value) AS errs FROM stats WHERE severity IN ('error', 'data_loss')",
    "SELECT max(iif(name IN ('tracing_started_ns', 'x'), int_value, NULL)) AS s FROM metadata",
    "INCLUDE PERFETTO MODULE viz.summary.slices; INCLUDE PERFETTO MODULE viz.summary.counters;
     INCLUDE PERFETTO MODULE viz.summary.threads; INCLUDE PERFETTO MODULE viz.summary.processes",
    "CREATE PERFETTO FUNCTION __deepest(count INT, ids STRING) RETURNS INT AS
     SELECT iif($count = 1,
       (SELECT max_depth FROM _slice_track_summary WHERE id = CAST($ids AS INT)),
       (SELECT max(layout_depth) FROM experimental_slice_layout($ids)))",
    "INCLUDE PERFETTO MODULE viz.threads;
     SELECT utid, upid FROM _threads_with_kernel_flag WHERE is_kernel_thread",
    "WITH groups AS MATERIALIZED (
       SELECT t.utid, ifnull(extract_arg(t.arg_set_id, 'rank'), 0) AS rank,
         CASE WHEN t.is_main_thread = 1 THEN 1 ELSE 0 END AS isMain,
         t.tid IN (SELECT raw_id FROM machine) AS isMachine,
         EXISTS (SELECT 1 FROM thread_state s WHERE s.utid = t.utid) AS hasStates
       FROM thread t LEFT JOIN process USING (upid) WHERE upid IS NULL OR upid >= 0)
     SELECT * FROM groups ORDER BY isMain DESC, rank",
    "CREATE PERFETTO TABLE __tracks AS
     SELECT type, min(name) AS name, group_concat(id) AS trackIds, count() AS trackCount,
       __deepest(count(), group_concat(id)) AS maxDepth, min(utid) AS utid
     FROM (SELECT t.*, extract_arg(t.dimension_arg_set_id, 'utid') AS utid
           FROM _slice_track_summary JOIN track t USING (id))
     GROUP BY type, track_group_id, ifnull(track_group_id, id) ORDER BY lower(min(name))",
    "SELECT t.name, s.layout_depth FROM __tracks t JOIN experimental_slice_layout(t.trackIds) s",
    "DROP TABLE IF EXISTS __tracks",
    "CREATE OR REPLACE PERFETTO TABLE lookup AS
     WITH installed AS (SELECT uid, string_agg(package_name, ',') AS name FROM package_list
       WHERE uid >= 10000 GROUP BY 1)
     SELECT * FROM installed UNION ALL SELECT 0, 'root'",
    "SELECT DISTINCT ucpu, cpu.machine_id AS machine_id FROM sched JOIN cpu USING (ucpu)
     WHERE ucpu >= 0",
    "SELECT ifnull(extract_metadata('android_build_fingerprint') GLOB '*x', 0) AS result",
    "INCLUDE PERFETTO MODULE android.startup.startups; SELECT count() cnt FROM android_startups",
    "INCLUDE PERFETTO MODULE wattson.windows;
     SELECT EXISTS (SELECT 1 FROM wattson_window_markers) AS supported",
];

/// Statements of the timeline, of selections and of areas.
const TIMELINE: &[&str] = &[
    "CREATE VIRTUAL TABLE slices_of_track USING __intrinsic_slice_mipmap((
       SELECT id, ts, iif(dur = -1, trace_end() - ts, dur) AS dur, ((layer * 10) + depth) AS depth
       FROM (SELECT id, ts, dur, depth, 0 AS layer FROM (slice) WHERE track_id = 0)))",
    "SELECT (z.ts / 64) * 64 AS ts, max(z.dur, 64) AS dur, z.count, s.id
     FROM slices_of_track(0, 5000, 64) z CROSS JOIN slice s USING (id)",
    "CREATE VIRTUAL TABLE counter_of_track USING __intrinsic_counter_mipmap((
       SELECT ts, value AS value FROM (SELECT * FROM counter WHERE track_id = 3)))",
    "SELECT min_value AS min, max_value AS max
     FROM counter_of_track(trace_start(), trace_end() + 1, trace_dur() + 1);",
    "CREATE PERFETTO TABLE __open AS SELECT id, ts, depth, (
       SELECT i.ts FROM slice i WHERE i.ts > o.ts AND i.track_id = o.track_id
       ORDER BY i.ts LIMIT 1) AS next FROM (slice) o WHERE dur = -1",
    "SELECT ifnull(depth, 0) + 1 AS rowCount FROM (
       SELECT *, internal_layout(ts, dur) OVER (ORDER BY ts
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS depth FROM slice)
     ORDER BY depth DESC LIMIT 1",
    "SELECT sched.id, (SELECT id FROM thread_state WHERE thread_state.ts = sched.ts
       AND thread_state.utid = sched.utid) AS state FROM sched WHERE id = 1",
    "SELECT name, ABS_TIME_STR(ts) AS time, __intrinsic_arg_set_to_json(arg_set_id) AS args
     FROM slice WHERE id = 0",
    "WITH c AS (SELECT id, lead(id) OVER (ORDER BY ts) AS following FROM slice WHERE track_id = 0)
     SELECT following FROM c WHERE id = 1",
    "INCLUDE PERFETTO MODULE slices.flow;
     SELECT f.slice_out, f.slice_in, t.name FROM directly_connected_flow(0) f
     JOIN slice t ON f.slice_out = t.slice_id",
    "INCLUDE PERFETTO MODULE viz.slices;
     SELECT name, sum(dur) AS total, count(1) AS n FROM _viz_slices_for_ui_table GROUP BY name",
    "INCLUDE PERFETTO MODULE intervals.intersect;
     CREATE PERFETTO TABLE __part AS
       SELECT s.id, s.name, ii.dur AS dur, ii.ts AS ts, 1 AS __groupid
       FROM _interval_intersect_single!(0, 100000, (SELECT id, ts, dur FROM slice WHERE dur >= 0)) ii
       JOIN slice s USING (id)",
    "CREATE PERFETTO INDEX __part_id ON __part(id)",
    "CREATE OR REPLACE PERFETTO TABLE aggregation AS
     SELECT json_object('id', id, 'groupid', __groupid) AS lineage, name, dur,
       dur * 1.0 / sum(dur) OVER () AS fraction FROM __part",
    "SELECT base.\"name\" AS \"name\", count(*) AS \"count\", avg(base.\"dur\") AS \"avg\",
       PERCENTILE(dur, 95) AS p95 FROM (aggregation) AS base GROUP BY base.\"name\"
     ORDER BY \"count\" DESC, name COLLATE NOCASE",
    "INCLUDE PERFETTO MODULE counters.intervals;
     SELECT * FROM counter_leading_intervals!((SELECT id, ts, track_id, value FROM counter))",
    "CREATE VIEW debug AS SELECT ts, dur, name FROM slice;
     CREATE PERFETTO TABLE __debug_track AS WITH data(ts, dur, name) AS (SELECT * FROM debug)
       SELECT row_number() OVER (ORDER BY ts) AS id, * FROM data",
    "SELECT name, perfetto_table_info.col_type FROM perfetto_table_info('__debug_track')",
    "INCLUDE PERFETTO MODULE sched.thread_executing_span_with_slice;
     SELECT cr.id, cr.name, cr.table_name FROM _thread_executing_span_critical_path_stack(
       1, trace_start(), trace_dur()) cr, trace_bounds WHERE name IS NOT NULL",
    "SELECT * FROM _thread_executing_span_critical_path_graph(\"path\", 1, 0, 1000) cr",
    "CREATE VIRTUAL TABLE steps USING __intrinsic_window(0, 5000, 100);
     CREATE VIRTUAL TABLE busy USING SPAN_JOIN(sched PARTITIONED cpu, steps);
     SELECT quantum_ts, min(count(*), 255) AS n FROM busy GROUP BY quantum_ts;
     DROP TABLE steps; DROP TABLE busy",
    "INCLUDE PERFETTO MODULE callstacks.stack_profile;
     WITH callstack AS MATERIALIZED (SELECT id, parent_id, name FROM
       _callstacks_for_stack_profile_samples!((SELECT callsite_id FROM perf_sample)))
     SELECT count(*) FROM callstack",
    "SELECT c.name FROM stack_sample_session s JOIN stack_sample_counter_track c
     ON c.session_id = s.id",
    "SELECT utid FROM thread JOIN process USING (upid)
     WHERE thread.name GLOB '*a*' OR process.name GLOB '*a*'",
    "INCLUDE PERFETTO MODULE android.cpu.cluster_type;
     CREATE VIRTUAL TABLE active USING __intrinsic_counter_mipmap((
       SELECT ts, active_cpu_count AS value FROM _active_cpu_count_for_cluster_type('big')));
     SELECT * FROM interval_merge_overlapping_partitioned!(
       (SELECT ts, dur, name FROM slice WHERE dur > 0), (name))",
    "SELECT query, started, ended FROM sqlstats ORDER BY started DESC LIMIT 10",
    "SELECT name FROM sqlite_master WHERE type = 'view' AND name = 'slice'",
    "INCLUDE PERFETTO MODULE linux.systemd_journald; SELECT (msg IS NOT NULL) IS 1 FROM logs",
];

#[test]
fn objects_of_the_library_have_types_that_the_ui_knows() {
    let mut session = Session::new();
    let kinds = session.rows(
        "SELECT DISTINCT upper(f.value ->> '$.type') FROM __intrinsic_stdlib_objects o
         JOIN json_each(o.cols) f
         UNION SELECT DISTINCT upper(f.value ->> '$.type') FROM __intrinsic_stdlib_objects o
         JOIN json_each(o.args) f WHERE o.object_type <> 'MACRO'",
    );
    let joins = |kind: &str| {
        let of = kind
            .strip_prefix("JOINID(")
            .or_else(|| kind.strip_prefix("ID("));
        of.and_then(|of| of.strip_suffix(')')?.split_once('.'))
            .is_some()
    };
    for kind in kinds {
        let kind = kind.trim_matches('"');
        assert!(TYPES.contains(&kind) || joins(kind), "the type '{kind}'");
    }
}

#[test]
fn statements_of_the_ui_run_over_traces_of_each_kind() {
    for trace in ["", TRACE, SWITCHES, PROFILE] {
        let mut session = over(trace);
        for sql in LOAD.iter().chain(TIMELINE) {
            if let Err(error) = session.csv(sql) {
                panic!("{}", error.render(sql));
            }
        }
    }
}
