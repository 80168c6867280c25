//! Tables, functions and modules over traces.

use crate::common::{Session, TRACE, over};

#[test]
fn query_001_all_tables_exist_for_an_empty_trace() {
    let mut s = over("");
    let names = s.table_names();
    assert!(names.len() > 50, "{names:?}");
    for name in names {
        let header = s.csv(&format!("SELECT * FROM {name} LIMIT 0"));
        header.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let header = |s: &mut Session, table: &str| {
        s.csv(&format!("SELECT * FROM {table} LIMIT 0"))
            .expect("rows")
            .replace(['"', '\n'], "")
    };
    assert_eq!(
        header(&mut s, "slice"),
        "id,ts,dur,track_id,category,name,depth,parent_id,arg_set_id,thread_ts,thread_dur,\
         thread_instruction_count,thread_instruction_delta,cat,slice_id"
    );
    assert_eq!(
        header(&mut s, "sched"),
        "id,ts,dur,cpu,utid,end_state,priority,ucpu,ts_end"
    );
    assert_eq!(
        header(&mut s, "thread"),
        "id,utid,tid,name,start_ts,end_ts,upid,is_main_thread,is_idle,machine_id,arg_set_id"
    );
}

#[test]
fn query_003_aliases_of_columns_agree() {
    let mut s = over(TRACE);
    let differ = "SELECT count(*) FROM slice WHERE slice_id <> id OR cat IS NOT category";
    assert_eq!(s.rows(differ), ["0"]);
    assert_eq!(
        s.rows("SELECT count(*) FROM thread WHERE utid <> id"),
        ["0"]
    );
    assert_eq!(
        s.rows("SELECT count(*) FROM process WHERE upid <> id"),
        ["0"]
    );
}

#[test]
fn query_005_arguments_have_display_values() {
    let mut s = over(TRACE);
    assert_eq!(
        s.rows(
            "SELECT key, value_type, display_value FROM args WHERE key LIKE 'debug.%' ORDER BY key"
        ),
        [
            "\"debug.big\",\"uint\",\"18446744073709551615\"",
            "\"debug.flag\",\"bool\",\"true\"",
            "\"debug.number\",\"int\",\"7\"",
            "\"debug.place\",\"pointer\",\"0xff\"",
            "\"debug.text\",\"string\",\"hello\""
        ]
    );
}

#[test]
fn query_007_arguments_are_extracted_with_their_types() {
    let mut s = over(TRACE);
    let of = |key: &str| {
        format!("SELECT extract_arg(arg_set_id, '{key}') FROM slice WHERE name = 'outer'")
    };
    assert_eq!(s.rows(&of("debug.flag")), ["1"]);
    assert_eq!(s.rows(&of("debug.number")), ["7"]);
    assert_eq!(s.rows(&of("debug.text")), ["\"hello\""]);
    assert_eq!(s.rows(&of("debug.none")), ["\"[NULL]\""]);
    assert_eq!(s.value("extract_arg(NULL, 'debug.flag')"), "\"[NULL]\"");
}

#[test]
fn query_036_slices_have_ancestors_and_descendants() {
    let mut s = over(TRACE);
    let id = |s: &mut Session, name: &str| {
        s.rows(&format!("SELECT id FROM slice WHERE name = '{name}'"))
            .concat()
    };
    let (outer, innermost) = (id(&mut s, "outer"), id(&mut s, "innermost"));
    assert_eq!(
        s.rows(&format!(
            "SELECT name, depth FROM ancestor_slice({innermost}) ORDER BY depth"
        )),
        ["\"outer\",0", "\"inner\",1"]
    );
    assert_eq!(
        s.rows(&format!(
            "SELECT name FROM descendant_slice({outer}) ORDER BY depth"
        )),
        ["\"inner\"", "\"innermost\""]
    );
    // The argument can be a column.
    assert_eq!(
        s.rows(
            "SELECT s.name, a.name FROM slice s JOIN ancestor_slice(s.id) a ORDER BY s.id, a.depth"
        ),
        [
            "\"inner\",\"outer\"",
            "\"innermost\",\"outer\"",
            "\"innermost\",\"inner\""
        ]
    );
}

#[test]
fn query_038_self_time_excludes_child_slices() {
    let mut s = over(TRACE);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE slices.self_dur;
                SELECT name, dur, self_dur FROM slice JOIN slice_self_dur USING (id) ORDER BY ts"
        ),
        [
            "\"outer\",100,60",
            "\"inner\",40,30",
            "\"innermost\",10,10",
            "\"later\",30,30"
        ]
    );
}

#[test]
fn query_057_flows_are_followed() {
    let mut s = over(TRACE);
    let found = |s: &mut Session, function: &str, slice: &str| {
        s.rows(&format!(
            "SELECT a.name, b.name FROM {function}((SELECT id FROM slice WHERE name = '{slice}')) f \
             JOIN slice a ON f.slice_out = a.id JOIN slice b ON f.slice_in = b.id"
        ))
    };
    let flow = ["\"inner\",\"later\""];
    assert_eq!(found(&mut s, "following_flow", "outer"), flow);
    assert_eq!(found(&mut s, "preceding_flow", "later"), flow);
    assert_eq!(found(&mut s, "directly_connected_flow", "inner"), flow);
    assert_eq!(
        found(&mut s, "directly_connected_flow", "outer"),
        Vec::<String>::new()
    );
}

#[test]
fn query_115_modules_have_no_rows_without_recorded_data() {
    let mut s = over("");
    let names: Vec<String> = s.0.module_names().map(str::to_owned).collect();
    let before = s.table_names();
    for name in names {
        s.csv(&format!("INCLUDE PERFETTO MODULE {name}"))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let added: Vec<String> = s
        .table_names()
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    assert!(added.len() > 20, "{added:?}");
    // Private tables may have rows about the trace itself, every trace has the idle process, and
    // without an event the states of battery and screen are unknown.
    const OTHERS: [&str; 3] = [
        "android_charging_states",
        "android_process_metadata",
        "android_screen_state",
    ];
    let mut filled = added;
    filled.retain(|name| {
        let is_about_data = !name.starts_with('_') && !OTHERS.contains(&name.as_str());
        is_about_data && !s.rows(&format!("SELECT * FROM {name}")).is_empty()
    });
    assert_eq!(filled, Vec::<String>::new());
}

#[test]
fn counters_have_tracks_and_intervals() {
    let mut s = over(TRACE);
    assert_eq!(
        s.rows(
            "SELECT t.name, t.unit, c.value FROM counter c JOIN counter_track t \
                ON c.track_id = t.id ORDER BY c.ts"
        ),
        [
            "\"depth\",\"count\",3.000000",
            "\"depth\",\"count\",5.000000"
        ]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE slices.with_context;
                SELECT name, thread_name, tid, process_name, pid FROM thread_slice WHERE depth = 0"
        ),
        [
            "\"outer\",\"worker\",11,\"program\",10",
            "\"later\",\"other\",12,\"program\",10"
        ]
    );
}

#[test]
fn all_reports_run() {
    for trace in ["", TRACE] {
        let mut s = over(trace);
        for report in ferretto_query::reports::Report::ALL {
            s.csv(report.sql())
                .unwrap_or_else(|e| panic!("{report:?}: {}", e.render(report.sql())));
        }
    }
}

#[test]
fn conditions_on_texts_select_the_rows_with_these_texts() {
    // There are far more slices than names. Some have none.
    const SLICES: usize = 4000;
    let name = |n: usize| (!n.is_multiple_of(7)).then(|| format!("name_{}", n * n % 50));
    let mut trace = "packet { trusted_packet_sequence_id: 1 timestamp: 1
        track_descriptor { uuid: 2 thread { pid: 10 tid: 11 } } }"
        .to_owned();
    for n in 0..SLICES {
        let name = name(n).map_or_else(String::new, |name| format!("name: \"{name}\""));
        trace += &format!(
            "packet {{ trusted_packet_sequence_id: 1 timestamp: {} track_event {{
                track_uuid: 2 type: TYPE_INSTANT {name} }} }}",
            n + 2
        );
    }
    let mut s = over(&trace);
    let mut check = |condition: &str, holds: &dyn Fn(usize, Option<&str>) -> bool| {
        let ids = s.rows(&format!(
            "SELECT id FROM slice WHERE {condition} ORDER BY id"
        ));
        let expected = (0..SLICES).filter(|n| holds(*n, name(*n).as_deref()));
        let expected: Vec<String> = expected.map(|n| n.to_string()).collect();
        assert_eq!(ids, expected, "{condition}");
        let count = s.rows(&format!("SELECT count(*) FROM slice WHERE {condition}"));
        assert_eq!(count, [expected.len().to_string()], "{condition}");
    };
    check("name GLOB '*_1?'", &|_, name| {
        name.is_some_and(|name| name.len() == 7 && name.starts_with("name_1"))
    });
    check("name NOT GLOB '*_1?'", &|_, name| {
        name.is_some_and(|name| name.len() != 7 || !name.starts_with("name_1"))
    });
    check("name = 'name_4' AND id > 1000", &|n, name| {
        n > 1000 && name == Some("name_4")
    });
    check("name = 'no name'", &|_, _| false);
    check("name IS NULL", &|_, name| name.is_none());
    check("name IS NULL OR name = 'name_1'", &|_, name| {
        name.is_none_or(|name| name == "name_1")
    });
    check("coalesce(name, 'name_1') = 'name_1'", &|_, name| {
        name.is_none_or(|name| name == "name_1")
    });
    check("name IN ('name_0', 'name_25', 'other')", &|_, name| {
        matches!(name, Some("name_0" | "name_25"))
    });
    check("length(name) = 6 AND name <> 'name_9'", &|_, name| {
        name.is_some_and(|name| name.len() == 6 && name != "name_9")
    });
    let names = "SELECT DISTINCT name FROM slice WHERE name GLOB '*5' ORDER BY name";
    assert_eq!(s.rows(names), ["\"name_25\""]);
}

/// Thread 11 runs, is preempted by thread 12, and runs again. A slice spans all of it.
const SCHED: &str = r#"
packet { trusted_packet_sequence_id: 1 timestamp: 1
  track_descriptor { uuid: 2 thread { pid: 10 tid: 11 thread_name: "worker" } } }
packet { trusted_packet_sequence_id: 1 timestamp: 90
  track_event { track_uuid: 2 type: TYPE_SLICE_BEGIN name: "work" } }
packet { trusted_packet_sequence_id: 1 timestamp: 190
  track_event { track_uuid: 2 type: TYPE_SLICE_END } }
packet { trusted_packet_sequence_id: 2 ftrace_events { cpu: 0
  event { timestamp: 100 pid: 0 sched_switch { prev_comm: "swapper" prev_pid: 0 prev_prio: 120
    prev_state: 0 next_comm: "worker" next_pid: 11 next_prio: 120 } }
  event { timestamp: 120 pid: 11 sched_switch { prev_comm: "worker" prev_pid: 11 prev_prio: 120
    prev_state: 0 next_comm: "other" next_pid: 12 next_prio: 120 } }
  event { timestamp: 150 pid: 12 sched_switch { prev_comm: "other" prev_pid: 12 prev_prio: 120
    prev_state: 1 next_comm: "worker" next_pid: 11 next_prio: 120 } }
  event { timestamp: 180 pid: 11 sched_switch { prev_comm: "worker" prev_pid: 11 prev_prio: 120
    prev_state: 1 next_comm: "swapper" next_pid: 0 next_prio: 120 } } } }
"#;

#[test]
fn query_075_the_latency_is_the_time_runnable_before_running() {
    let mut s = over(SCHED);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE sched.latency;
                SELECT t.name, l.latency_dur FROM sched_latency_for_running_interval l
                JOIN thread t USING (utid)"
        ),
        ["\"worker\",30"]
    );
}

#[test]
fn query_116_cpu_time_of_slices_excludes_waiting_time() {
    let mut s = over(SCHED);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE slices.cpu_time;
                SELECT name, thread_name, cpu_time FROM thread_slice_cpu_time"
        ),
        ["\"work\",\"worker\",50"]
    );
}
