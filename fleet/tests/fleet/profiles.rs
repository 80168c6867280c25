//! Callstacks in SQL.

use crate::common::over;

/// Samples of `foo::bar` and of `work` below it, with counters, and a heap profile.
const PROFILE: &str = r#"
packet { clock_snapshot { clocks { clock_id: 6 timestamp: 0 } clocks { clock_id: 4 timestamp: 0 } } }
packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 1
  trace_packet_defaults { perf_sample_defaults {
    timebase { frequency: 100 counter: SW_CPU_CLOCK modifiers: EVENT_MODIFIER_COUNT_USERSPACE } } }
  interned_data {
    build_ids { iid: 1 str: "\001\253" } mapping_paths { iid: 1 str: "app" }
    function_names { iid: 1 str: "_ZN3foo3barEv" } function_names { iid: 2 str: "work" }
    mappings { iid: 1 build_id: 1 start: 4096 end: 8192 path_string_ids: 1 }
    frames { iid: 1 function_name_id: 1 mapping_id: 1 rel_pc: 16 }
    frames { iid: 2 function_name_id: 2 mapping_id: 1 rel_pc: 32 }
    callstacks { iid: 1 frame_ids: 1 frame_ids: 2 }
    callstacks { iid: 2 frame_ids: 1 } } }
packet { trusted_packet_sequence_id: 1 sequence_flags: 2 timestamp: 10
  perf_sample { cpu: 0 pid: 5 tid: 6 cpu_mode: MODE_USER timebase_count: 7 callstack_iid: 1 } }
packet { trusted_packet_sequence_id: 1 sequence_flags: 2 timestamp: 20
  perf_sample { cpu: 0 pid: 5 tid: 6 cpu_mode: MODE_USER timebase_count: 8 callstack_iid: 1 } }
packet { trusted_packet_sequence_id: 1 sequence_flags: 2 timestamp: 30
  perf_sample { cpu: 0 pid: 5 tid: 6 cpu_mode: MODE_USER timebase_count: 9 callstack_iid: 2 } }
packet { trusted_packet_sequence_id: 2 sequence_flags: 1
  interned_data {
    function_names { iid: 1 str: "main" } function_names { iid: 2 str: "work" }
    mappings { iid: 1 start: 4096 end: 8192 }
    frames { iid: 1 function_name_id: 1 mapping_id: 1 }
    frames { iid: 2 function_name_id: 2 mapping_id: 1 }
    callstacks { iid: 1 frame_ids: 1 } callstacks { iid: 2 frame_ids: 1 frame_ids: 2 } } }
packet { trusted_packet_sequence_id: 2 timestamp: 1000 profile_packet { index: 0
  process_dumps { pid: 5 timestamp: 1000 heap_name: "libc.malloc"
    samples { callstack_id: 1 self_allocated: 100 alloc_count: 2 self_freed: 50 free_count: 1 }
    samples { callstack_id: 2 self_allocated: 8 alloc_count: 1 } } } }
"#;

#[test]
fn query_095_the_root_of_a_flamegraph_has_all_bytes() {
    let mut s = over(PROFILE);
    let graph = "experimental_flamegraph(
        'native', 1000, NULL, (SELECT upid FROM process WHERE pid = 5), NULL, NULL)";
    assert_eq!(
        s.rows(&format!(
            "SELECT depth, name, size, cumulative_size, alloc_size, cumulative_alloc_size,
               cumulative_count, parent_id FROM {graph}"
        )),
        [
            "0,\"main\",50,58,100,108,2,\"[NULL]\"",
            "1,\"work\",8,8,8,8,1,0"
        ]
    );
    assert_eq!(
        s.rows(&format!(
            "SELECT (SELECT sum(size) FROM heap_profile_allocation) =
               (SELECT sum(cumulative_size) FROM {graph} WHERE parent_id IS NULL) AS same"
        )),
        ["1"]
    );
}

#[test]
fn flamegraphs_have_the_samples_within_bounds_of_time() {
    let mut s = over(PROFILE);
    let graph = |bounds: &str| {
        format!(
            "SELECT name, count, cumulative_count FROM experimental_flamegraph(
               'perf', NULL, '{bounds}', (SELECT upid FROM process WHERE pid = 5), NULL, NULL)"
        )
    };
    assert_eq!(
        s.rows(&graph(">=20,<=30")),
        ["\"_ZN3foo3barEv\",1,2", "\"work\",1,1"]
    );
    assert!(s.error(&graph("around 20")).contains("is not a bound"));
    let focused = graph(">=20,<=30").replace("NULL, NULL)", "NULL, 'WORK')");
    assert_eq!(s.rows(&focused), ["\"_ZN3foo3barEv\",1,2", "\"work\",1,1"]);
    let other = "SELECT * FROM experimental_flamegraph('other', 1, NULL, 1, NULL, NULL)";
    assert!(s.error(other).contains("unknown profile type"));
    let few = "SELECT * FROM experimental_flamegraph('native', 1)";
    assert!(s.error(few).contains("takes 6 arguments"));
}

#[test]
fn query_096_roots_count_all_samples_with_callstacks() {
    let mut s = over(PROFILE);
    for (module, tree) in [
        ("linux.perf.samples", "linux_perf_samples_summary_tree"),
        ("stacks.cpu_profiling", "cpu_profiling_summary_tree"),
    ] {
        assert_eq!(
            s.rows(&format!(
                "INCLUDE PERFETTO MODULE {module};
                 SELECT id, parent_id, name, mapping_name, self_count, cumulative_count FROM {tree}"
            )),
            [
                "0,\"[NULL]\",\"foo::bar\",\"/app\",1,3",
                "1,0,\"work\",\"/app\",2,2"
            ],
            "{tree}"
        );
    }
}

#[test]
fn counters_are_found_by_sample() {
    let mut s = over(PROFILE);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE linux.perf.counters;
             SELECT sample_id, counter_value
             FROM linux_perf_sample_with_counters ORDER BY sample_id"
        ),
        ["0,7.000000", "1,8.000000", "2,9.000000"]
    );
}

#[test]
fn names_of_functions_are_demangled() {
    let mut s = crate::common::Session::new();
    assert_eq!(s.value("demangle('_ZN3foo3barEv')"), "\"foo::bar\"");
    assert_eq!(s.value("demangle('main')"), "\"[NULL]\"");
}

#[test]
fn dumps_of_a_heap_have_intervals() {
    let mut s = over(PROFILE);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.memory.heap_profile.intervals;
             SELECT heap_name, ts + dur, retained, allocated, delta
             FROM _android_heap_profile_intervals"
        ),
        ["\"libc.malloc\",1000,58,108,58"]
    );
}
