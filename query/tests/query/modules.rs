//! The library of modules.

use crate::common::Session;

#[test]
fn all_modules_can_be_included_and_their_tables_be_read() {
    let mut session = Session::new();
    let names: Vec<String> = session.0.module_names().map(str::to_owned).collect();
    let mut failures = Vec::new();
    for name in names {
        if let Err(error) = session.csv(&format!("INCLUDE PERFETTO MODULE {name}")) {
            failures.push(format!("{name}: {error}"));
        }
    }
    let tables = session.rows("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND sql NOT LIKE '%USING __perfetto%'");
    for table in tables {
        let name = table.trim_matches('"');
        if let Err(error) = session.csv(&format!("SELECT * FROM \"{name}\" LIMIT 3")) {
            failures.push(format!("{name}: {error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Thread 11 waits from 10 to 40 ms for thread 12, which wakes it, and runs until 50 ms.
pub(crate) const SWITCHES: &str = r#"
packet { ftrace_events { cpu: 0
  event { timestamp: 1000000 pid: 11 sched_switch { prev_comm: "one" prev_pid: 11 prev_prio: 120
    prev_state: 1 next_comm: "two" next_pid: 12 next_prio: 120 } }
  event { timestamp: 5000000 pid: 12 sched_waking { comm: "one" pid: 11 prio: 120 success: 1
    target_cpu: 0 } }
  event { timestamp: 6000000 pid: 12 sched_switch { prev_comm: "two" prev_pid: 12 prev_prio: 120
    prev_state: 1 next_comm: "one" next_pid: 11 next_prio: 120 } }
  event { timestamp: 10000000 pid: 11 sched_switch { prev_comm: "one" prev_pid: 11 prev_prio: 120
    prev_state: 1 next_comm: "two" next_pid: 12 next_prio: 120 } }
  event { timestamp: 40000000 pid: 12 sched_waking { comm: "one" pid: 11 prio: 120 success: 1
    target_cpu: 0 } }
  event { timestamp: 41000000 pid: 12 sched_switch { prev_comm: "two" prev_pid: 12 prev_prio: 120
    prev_state: 1 next_comm: "one" next_pid: 11 next_prio: 120 } }
  event { timestamp: 50000000 pid: 11 sched_switch { prev_comm: "one" prev_pid: 11 prev_prio: 120
    prev_state: 1 next_comm: "swapper" next_pid: 0 next_prio: 120 } }
} }"#;

#[test]
fn wakeups_begin_spans_that_wait_for_their_wakers() {
    let trace = crate::common::import(SWITCHES);
    let mut session =
        Session(ferretto_query::Engine::new(&trace, &Default::default()).expect("engine"));
    session.rows("INCLUDE PERFETTO MODULE sched.thread_executing_span_with_slice");
    let sql = "SELECT t.name, g.ts, g.dur, g.idle_state, g.idle_dur, w.name
        FROM _wakeup_graph g JOIN thread t USING (utid)
        LEFT JOIN thread_state r ON r.id = g.waker_id LEFT JOIN thread w ON w.utid = r.utid
        WHERE t.name = 'one'";
    let rows = session.rows(sql);
    assert_eq!(
        rows,
        [
            "\"one\",5000000,5000000,\"S\",4000000,\"[NULL]\"",
            "\"one\",40000000,10000000,\"S\",30000000,\"[NULL]\""
        ]
    );
    let stack = "SELECT ts, stack_depth, name FROM _thread_executing_span_critical_path_stack(
        (SELECT utid FROM thread WHERE name = 'one'), 5000000, 40000000)
        WHERE stack_depth = 0 ORDER BY ts";
    assert_eq!(session.rows(stack)[0], "5000000,0,\"thread_state: R\"");
    let pprof = "SELECT length(pprof) > 10 FROM _thread_executing_span_critical_path_graph(
        'title', (SELECT utid FROM thread WHERE name = 'one'), 0, 60000000)";
    assert_eq!(session.rows(pprof), ["1"]);
}

#[test]
fn flows_lead_to_slices() {
    let mut session = Session::new();
    session.rows("INCLUDE PERFETTO MODULE slices.flow; INCLUDE PERFETTO MODULE viz.slices");
    let sql = "SELECT node_id FROM _slice_following_flow!((SELECT 1 AS id))";
    assert_eq!(session.rows(sql), ["1", "3"]);
    let sql = "SELECT id, self_dur, self_count FROM _viz_slice_ancestor_agg!(
        (SELECT id, dur FROM slice WHERE id = 2), slice) ORDER BY id";
    let dur = |id: u8| format!("(SELECT dur FROM slice WHERE id = {id})");
    let expected = format!(
        "SELECT 0, {} - {}, 0 UNION ALL SELECT 1, {} - {}, 0 UNION ALL SELECT 2, {}, 1",
        dur(0),
        dur(1),
        dur(1),
        dur(2),
        dur(2)
    );
    assert_eq!(session.rows(sql), session.rows(&expected));
}

#[test]
fn flamegraphs_merge_frames_with_the_same_way() {
    let mut session = Session::new();
    session.rows(
        "INCLUDE PERFETTO MODULE viz.flamegraph;
         CREATE PERFETTO TABLE frame AS
         WITH f(id, parentId, name, value) AS (VALUES
           (0, NULL, 'main', 1), (1, 0, 'a', 2), (2, 0, 'a', 3), (3, 1, 'hidden', 4), (4, 3, 'b', 5))
         SELECT *, 'x' AS kind FROM f;
         CREATE PERFETTO TABLE source AS SELECT * FROM _viz_flamegraph_prepare_filter!(
           frame, 0, 0, 0, (name = 'hidden'), 0, 8, (kind));
         CREATE PERFETTO TABLE filtered AS SELECT * FROM _viz_flamegraph_filter_frames!(source, 0);
         CREATE PERFETTO TABLE accumulated AS SELECT * FROM _viz_flamegraph_accumulate!(filtered, 0);
         CREATE PERFETTO TABLE hashed AS SELECT * FROM _viz_flamegraph_downwards_hash!(
           source, filtered, accumulated, (kind), (id), 1);
         CREATE PERFETTO TABLE merged AS SELECT * FROM _viz_flamegraph_merge_hashes!(
           hashed, (kind), (count() AS id));
         CREATE PERFETTO TABLE layout AS SELECT * FROM _viz_flamegraph_local_layout!(merged)",
    );
    assert_eq!(
        session.rows("SELECT id, cumulativeValue FROM accumulated"),
        ["0,15", "1,11", "2,3", "4,5"]
    );
    let sql = "SELECT name, selfValue, cumulativeValue, ifnull(parentCumulativeValue, -1), depth,
        xStart, xEnd FROM _viz_flamegraph_global_layout!(merged, layout, (kind), (id))";
    assert_eq!(
        session.rows(sql),
        [
            "\"main\",1,15,-1,1,0,15",
            "\"a\",9,14,15,2,0,14",
            "\"b\",5,5,14,3,0,5"
        ]
    );
}

/// Every block of SQL in the documentation runs.
#[test]
fn the_documentations_queries_run() {
    let page = include_str!("../../../docs/query.md");
    let mut blocks = Vec::new();
    let mut current: Option<String> = None;
    for line in page.lines() {
        match (&mut current, line) {
            (None, "```sql") => current = Some(String::new()),
            (Some(block), "```") => {
                blocks.push(std::mem::take(block));
                current = None;
            }
            (Some(block), line) => {
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    assert!(blocks.len() >= 10, "{} blocks", blocks.len());
    let mut s = Session::new();
    for block in blocks {
        s.csv(&block)
            .unwrap_or_else(|e| panic!("{}", e.render(&block)));
    }
}

#[test]
fn profiles_are_written_by_the_module_for_firefox() {
    let mut s = crate::common::over(crate::profiles::PROFILE);
    let rows = s.rows(
        "INCLUDE PERFETTO MODULE export.to_firefox_profile;
         SELECT json_array_length(j, '$.threads') >= 1,
           json_array_length(j, '$.threads[0].samples.data')
             = (SELECT count() FROM perf_sample WHERE callsite_id IS NOT NULL AND utid =
                 (SELECT min(utid) FROM perf_sample WHERE callsite_id IS NOT NULL)),
           json_array_length(j, '$.threads[0].stackTable.data')
             = 2,
           json_type(j, '$.threads[0].stringTable[0]')
         FROM (SELECT export_to_firefox_profile() AS j)",
    );
    assert_eq!(rows, ["1,1,1,\"text\""]);
}

#[test]
fn every_module_of_this_engine_can_be_included() {
    let mut s = Session::new();
    let names: Vec<String> = s.0.module_names().map(str::to_owned).collect();
    for name in names {
        s.csv(&format!("INCLUDE PERFETTO MODULE {name}"))
            .unwrap_or_else(|error| panic!("{name}: {}", error.message));
    }
    assert_eq!(
        s.value("linux_perf_counter_for_sample(0, 'x')"),
        "\"[NULL]\""
    );
    assert_eq!(
        s.rows("SELECT * FROM thread_slice_cpu_cycles WHERE 0")
            .len(),
        0
    );
    for (uid, name) in [
        ("NULL", "[NULL]"),
        ("10001", "uid=10001"),
        ("1001000", "AID_SYSTEM_USER"),
        ("1093", "AID_UPROBESTATS"),
        ("1094", "uid=1094"),
        ("2000", "AID_SHELL"),
        ("99123", "ISOLATED_UID"),
    ] {
        let call = format!("android_package_lookup({uid})");
        assert_eq!(s.value(&call), format!("\"{name}\""));
    }
    let frames = "(SELECT 'a' AS file_name, 1 AS rel_pc, 1 AS mapping_id, 1 AS address)";
    let sql = format!("SELECT * FROM _callstack_frame_symbolize!({frames})");
    assert_eq!(s.rows(&sql).len(), 0);
}

#[test]
fn modules_include_those_that_upstreams_include() {
    let mut s = Session::new();
    let rows = s.rows(
        "INCLUDE PERFETTO MODULE linux.cpu.utilization.process;
         SELECT time_to_ms(1500000)",
    );
    assert_eq!(rows, ["1"]);
    let mut s = Session::new();
    let rows = s.rows(
        "INCLUDE PERFETTO MODULE android.oom_adjuster;
         SELECT android_oom_adj_score_to_detailed_bucket_name(value, app)
         FROM (SELECT -900 AS value, 1 AS app UNION ALL SELECT 230, 1 UNION ALL SELECT 2000, 1
           UNION ALL SELECT 7, NULL UNION ALL SELECT 7, 10 UNION ALL SELECT 7, 10000)",
    );
    let expected = [
        "system",
        "perceptible_medium_app",
        "cached_app_lmk_first",
        "unknown",
        "unknown_native",
        "unknown_app",
    ];
    assert_eq!(rows, expected.map(|name| format!("\"{name}\"")));
    let rows = s.rows(
        "INCLUDE PERFETTO MODULE android.network_packets;
         SELECT count() FROM android_network_packets",
    );
    assert_eq!(rows, ["0"]);
}
