//! Profiles in tables.

use crate::common::{import, rows, stat};

/// A sequence of samples: the counters, a mapping, and its frames `main` and `work`.
const SESSION: &str = r#"
    packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 1
        trace_packet_defaults { perf_sample_defaults {
            timebase { frequency: 100 counter: SW_CPU_CLOCK modifiers: EVENT_MODIFIER_COUNT_USERSPACE }
            followers { tracepoint { name: "sched:sched_switch" } }
        } }
        interned_data {
            build_ids { iid: 1 str: "\001\253" }
            mapping_paths { iid: 1 str: "usr" } mapping_paths { iid: 2 str: "app" }
            function_names { iid: 1 str: "main" } function_names { iid: 2 str: "" }
            mappings { iid: 1 build_id: 1 start: 4096 end: 8192 path_string_ids: 1 path_string_ids: 2 }
            frames { iid: 1 function_name_id: 1 mapping_id: 1 rel_pc: 16 }
            frames { iid: 2 function_name_id: 2 mapping_id: 1 rel_pc: 32 }
            callstacks { iid: 1 frame_ids: 1 frame_ids: 2 }
            callstacks { iid: 2 frame_ids: 1 }
        } }"#;

fn sample(ts: u64, fields: &str) -> String {
    format!(
        "packet {{ trusted_packet_sequence_id: 1 sequence_flags: 2 timestamp: {ts}
            perf_sample {{ {fields} }} }}\n"
    )
}

#[test]
fn query_087_a_sample_refers_to_its_leaf_and_has_counters() {
    let at = "cpu: 2 pid: 5 tid: 6 cpu_mode: MODE_USER";
    let text = SESSION.to_owned()
        + &sample(
            10,
            &format!("{at} timebase_count: 100 follower_counts: 7 callstack_iid: 1"),
        )
        + &sample(20, &format!("{at} timebase_count: 200 callstack_iid: 1"));
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "stack_profile_callsite", "depth parent_id frame_id"),
        ["0 NULL 0", "1 0 1"]
    );
    assert_eq!(
        rows(
            &trace,
            "stack_profile_frame",
            "name mapping rel_pc symbol_set_id"
        ),
        ["main 0 16 NULL", " 0 32 NULL"]
    );
    assert_eq!(
        rows(
            &trace,
            "profiler_sample",
            "ts source callsite_id unwind_error counter_set_id"
        ),
        ["10 linux.perf 1 NULL 0", "20 linux.perf 1 NULL 2"]
    );
    assert_eq!(
        rows(&trace, "counter", "ts track_id value"),
        ["10 0 100", "10 1 7", "20 0 200"]
    );
    assert_eq!(
        rows(&trace, "track", "name type cpu"),
        [
            "cpu-clock:u perf_cpu_counter 2",
            "sched:sched_switch perf_cpu_counter 2"
        ]
    );
    assert_eq!(
        rows(&trace, "profiler_counter_set", "counter_set_id counter_id"),
        ["0 0", "0 1", "2 2"]
    );
    assert_eq!(
        rows(&trace, "profiler_session", "source timebase_unit"),
        ["linux.perf ns"]
    );
    assert_eq!(
        rows(&trace, "profiler_execution_context", "ucpu cpu_mode"),
        ["2 user"]
    );
    let task = rows(&trace, "profiler_task_context", "upid utid");
    assert_eq!(task.len(), 1);
    assert_eq!(rows(&trace, "process", "pid")[1..], ["5"]);
}

#[test]
fn query_088_records_of_lost_events_are_not_samples() {
    let text = SESSION.to_owned()
        + &sample(10, "cpu: 3 kernel_records_lost: 17")
        + &sample(11, "cpu: 3 kernel_records_lost: 3")
        + &sample(
            12,
            "producer_event { source_stop_reason: PROFILER_STOP_GUARDRAIL }",
        );
    let trace = import(&text);
    assert!(rows(&trace, "profiler_sample", "ts").is_empty());
    assert!(rows(&trace, "counter", "ts").is_empty());
    let stats = rows(&trace, "stats", "name idx value severity");
    assert!(stats.contains(&"perf_cpu_lost_records 3 20 data_loss".to_owned()));
    assert!(stats.contains(&"perf_guardrail_stop_ts 0 12 data_loss".to_owned()));
}

#[test]
fn query_089_skipped_samples_are_rows_without_callstack() {
    let skipped = |reason: &str| {
        let reason = format!("PROFILER_SKIP_{reason}");
        sample(
            10,
            &format!("cpu: 0 pid: 5 tid: 5 sample_skipped_reason: {reason}"),
        )
    };
    let text = SESSION.to_owned()
        + &skipped("READ_STAGE")
        + &skipped("UNWIND_STAGE")
        + &skipped("UNWIND_ENQUEUE")
        + &skipped("NOT_IN_SCOPE");
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "profiler_sample", "ts callsite_id"),
        ["10 NULL"; 4]
    );
    assert_eq!(stat(&trace, "perf_samples_skipped"), 2);
    assert_eq!(stat(&trace, "perf_samples_skipped_dataloss"), 1);
}

#[test]
fn query_090_late_symbols_are_assigned_to_frames() {
    let symbols = |build_id: &str, path: &str| {
        format!(
            r#"packet {{ module_symbols {{ path: "{path}" build_id: "{build_id}"
                address_symbols {{ address: 32
                    lines {{ function_name: "inner" source_file_name: "a.c" line_number: 7 }}
                    lines {{ function_name: "outer" line_number: 9 }} }}
                address_symbols {{ address: 99 lines {{ function_name: "x" }} }} }} }}"#
        )
    };
    let at = "cpu: 0 pid: 5 tid: 5 callstack_iid: 1";
    let text = SESSION.to_owned()
        + &sample(10, at)
        + &symbols(r"\001\254", "/usr/app")
        + &symbols(r"\001\253", "/usr/app");
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "stack_profile_frame", "rel_pc symbol_set_id"),
        ["16 NULL", "32 0"]
    );
    assert_eq!(
        rows(
            &trace,
            "stack_profile_symbol",
            "symbol_set_id name source_file line_number"
        ),
        ["0 inner a.c 7", "0 outer NULL NULL", "2 x NULL NULL"]
    );
    assert_eq!(stat(&trace, "stackprofile_invalid_mapping_id"), 1);
    assert_eq!(stat(&trace, "stackprofile_invalid_frame_id"), 1);
}

#[test]
fn query_091_a_mapping_is_named_by_its_path_and_build_id() {
    let text = SESSION.to_owned()
        + &sample(10, "cpu: 0 pid: 5 tid: 5 callstack_iid: 1")
        // Another process has its own mappings.
        + &sample(11, "cpu: 0 pid: 6 tid: 6 callstack_iid: 2");
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "stack_profile_mapping", "name build_id start end"),
        ["/usr/app 01ab 4096 8192"; 2]
    );
}

#[test]
fn samples_with_unknown_references_are_counted_and_kept() {
    let bad = r#"packet { trusted_packet_sequence_id: 1 sequence_flags: 2 timestamp: 2
        interned_data {
            callstacks { iid: 3 frame_ids: 9 }
            frames { iid: 4 mapping_id: 8 } callstacks { iid: 4 frame_ids: 4 }
            frames { iid: 5 mapping_id: 1 function_name_id: 8 } callstacks { iid: 5 frame_ids: 5 }
            callstacks { iid: 6 }
        } }"#;
    let mut text = SESSION.to_owned() + bad;
    for iid in 3..=7 {
        text += &sample(10, &format!("cpu: 0 pid: 5 tid: 5 callstack_iid: {iid}"));
    }
    let trace = import(&text);
    assert_eq!(rows(&trace, "profiler_sample", "callsite_id"), ["NULL"; 5]);
    for name in ["string", "mapping", "frame", "callstack"] {
        assert_eq!(
            stat(&trace, &format!("stackprofile_invalid_{name}_id")),
            1,
            "{name}"
        );
    }
    assert_eq!(stat(&trace, "stackprofile_empty_callstack"), 1);
    assert_eq!(stat(&trace, "interned_data_tokenizer_errors"), 4);
}

/// A small file whose processes share one deep callstack would need a row of each frame for each
/// process.
#[test]
fn shared_callstacks_take_bounded_memory() {
    let mut text = r#"packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 1
        interned_data { mappings { iid: 1 start: 1 end: 2 }"#
        .to_owned();
    let frames: String = (1..=1000).map(|iid| format!(" frame_ids: {iid}")).collect();
    for iid in 1..=1000 {
        text += &format!("frames {{ iid: {iid} mapping_id: 1 rel_pc: {iid} }}\n");
    }
    text += &format!("callstacks {{ iid: 1 {frames} }} }} }}\n");
    for pid in 1..=700 {
        text += &sample(
            10,
            &format!("cpu: 0 pid: {pid} tid: {pid} callstack_iid: 1"),
        );
    }
    let trace = import(&text);
    assert_eq!(rows(&trace, "profiler_sample", "ts").len(), 700);
    let callsites = trace.tables().stack_profile_callsite.len();
    assert!((500_000..600_000).contains(&callsites), "{callsites}");
    assert!(stat(&trace, "stackprofile_parser_error") > 100);
}

/// The interned data of a sequence of heap profiles.
const HEAP: &str = r#"
    packet { clock_snapshot { clocks { clock_id: 6 timestamp: 0 } clocks { clock_id: 4 timestamp: 0 } } }
    packet { trusted_packet_sequence_id: 2 sequence_flags: 1
        interned_data {
            function_names { iid: 1 str: "main" } function_names { iid: 2 str: "work" }
            mappings { iid: 1 start: 4096 end: 8192 }
            frames { iid: 1 function_name_id: 1 mapping_id: 1 }
            frames { iid: 2 function_name_id: 2 mapping_id: 1 }
            callstacks { iid: 1 frame_ids: 1 } callstacks { iid: 2 frame_ids: 1 frame_ids: 2 }
        } }"#;

fn dump(index: u64, ts: u64, continued: bool, fields: &str) -> String {
    format!(
        "packet {{ trusted_packet_sequence_id: 2 timestamp: {ts} profile_packet {{
            index: {index} continued: {continued}
            process_dumps {{ pid: 5 timestamp: {ts} heap_name: \"libc.malloc\" {fields} }} }} }}\n"
    )
}

fn heap_sample(callstack: u64, [allocated, allocations, freed, frees]: [u64; 4]) -> String {
    format!(
        "samples {{ callstack_id: {callstack} self_allocated: {allocated}
            alloc_count: {allocations} self_freed: {freed} free_count: {frees} }}\n"
    )
}

#[test]
fn query_092_a_heap_dump_has_the_differences() {
    let first = heap_sample(1, [100, 2, 50, 1]) + &heap_sample(2, [8, 1, 0, 0]);
    let second = heap_sample(1, [300, 4, 100, 2]) + &heap_sample(2, [8, 1, 0, 0]);
    let text = HEAP.to_owned()
        + &dump(0, 1000, true, &first)
        + &dump(1, 1000, false, "")
        + &dump(2, 2000, false, &format!("start_timestamp: 1000 {second}"));
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "heap_profile", "ts ts_end dur heap_name"),
        ["1000 1000 0 libc.malloc", "1000 2000 1000 libc.malloc"]
    );
    assert_eq!(
        rows(
            &trace,
            "heap_profile_allocation",
            "ts callsite_id count size"
        ),
        [
            "1000 0 2 100",
            "1000 0 -1 -50",
            "1000 1 1 8",
            "2000 0 2 200",
            "2000 0 -1 -50"
        ]
    );
    assert_eq!(stat(&trace, "heapprofd_missing_packet"), 0);
    assert_eq!(stat(&trace, "heapprofd_non_finalized_profile"), 0);
}

#[test]
fn query_093_gaps_and_unfinished_dumps_are_counted() {
    let text = HEAP.to_owned()
        + &dump(0, 1000, false, &heap_sample(1, [100, 1, 0, 0]))
        + &dump(2, 2000, false, &heap_sample(1, [90, 1, 0, 0]))
        + &dump(3, 3000, true, &heap_sample(2, [100, 1, 0, 0]));
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "heap_profile_allocation", "ts size"),
        ["1000 100"]
    );
    assert_eq!(stat(&trace, "heapprofd_missing_packet"), 1);
    assert_eq!(stat(&trace, "heapprofd_non_finalized_profile"), 1);
    let stats = rows(&trace, "stats", "name value");
    assert!(stats.contains(&"heapprofd_malformed_packet 1".to_owned()));
}

#[test]
fn errors_of_a_heap_profile_are_in_the_statistics() {
    let flags = "disconnected: true buffer_overran: true hit_guardrail: true
        client_error: CLIENT_ERROR_INVALID_STACK_BOUNDS
        sampling_interval_bytes: 50 orig_sampling_interval_bytes: 10
        stats { heap_samples: 3 total_unwinding_time_us: 4 client_spinlock_blocked_us: 5 }";
    let trace = import(&(HEAP.to_owned() + &dump(0, 1000, false, flags)));
    let stats = rows(&trace, "stats", "name idx value");
    for expected in [
        "client_disconnected 5 1",
        "buffer_overran 5 1",
        "hit_guardrail 5 1",
        "client_error 5 2",
        "sampling_interval_adjusted 5 40",
        "unwind_samples 5 3",
        "unwind_time_us 5 4",
        "client_spinlock_blocked 5 5",
        "last_profile_timestamp 5 1000",
    ] {
        assert!(
            stats.contains(&format!("heapprofd_{expected}")),
            "{expected}"
        );
    }
}

#[test]
fn query_094_samples_of_other_profilers_are_in_the_same_table() {
    let text = SESSION.to_owned()
        + &sample(10, "cpu: 0 pid: 5 tid: 5 callstack_iid: 1")
        + r#"packet { trusted_packet_sequence_id: 3 sequence_flags: 1 timestamp: 20
            trace_packet_defaults { stack_sample_defaults { source: "python.wall"
                primary_descriptor { name: "wall" unit: UNIT_NANOSECONDS } } }
            interned_data {
                stack_sample_task_contexts { iid: 1 pid: 8 tid: 9 async_id: 2 }
                stack_sample_async_context_descriptors { iid: 1 name: "root" }
                stack_sample_async_context_descriptors {
                    iid: 2 name: "job" kind: "fiber" parent_iid: 1 }
            }
            stack_sample { task_context_iid: 1 execution_context { cpu: 1 mode: MODE_KERNEL }
                callstack { frames { function_name: "f" source_file: "f.py" line_number: 3 } }
                primary_weight: 77 follower_weights: 1 } }"#;
    let trace = import(&text);
    assert_eq!(
        rows(
            &trace,
            "profiler_sample",
            "ts source callsite_id session_id"
        ),
        ["10 linux.perf 1 0", "20 python.wall 2 1"]
    );
    assert_eq!(
        rows(&trace, "profiler_async_context", "name kind parent_id"),
        ["root NULL NULL", "job fiber 0"]
    );
    assert_eq!(
        rows(&trace, "profiler_task_context", "async_context_id"),
        ["NULL", "1"]
    );
    assert_eq!(
        rows(&trace, "profiler_execution_context", "ucpu cpu_mode"),
        ["0 NULL", "1 kernel"]
    );
    assert_eq!(
        rows(
            &trace,
            "stack_profile_symbol",
            "name source_file line_number"
        ),
        ["f f.py 3"]
    );
    let tracks = rows(&trace, "track", "type name counter_unit");
    assert_eq!(
        tracks.last().unwrap(),
        "stack_sample_session_counter wall ns"
    );
    assert_eq!(rows(&trace, "counter", "ts value"), ["20 77"]);
}

#[test]
fn memory_maps_are_read_in_both_forms() {
    let text = r#"
        packet { timestamp: 5 smaps_packet { pid: 7
            entries { path: "/a (deleted)" size_kb: 4 swap_kb: 1 protection_flags: 5 } } }
        packet { timestamp: 6 smaps_packet { pid: 7 packed_entries {
            string_table: "" string_table: "/b" aggregate_count: 2 aggregate_count: 3
            size_kb: 10 size_kb: 20 rss_kb: 1 rss_kb: 2 } } }
        packet { timestamp: 7 smaps_packet { pid: 7 packed_entries {
            string_table: "" string_table: "/c" name_id: 1 name_id: 9 size_kb: 1 size_kb: 2 } } }"#;
    let trace = import(text);
    assert_eq!(
        rows(
            &trace,
            "profiler_smaps",
            "ts path path_trimmed is_deleted aggregate_count size_kb rss_kb"
        ),
        [
            "5 /a (deleted) /a 1 1 4 0",
            "6   0 2 10 1",
            "6 /b /b 0 3 20 2",
            "7 /c /c 0 1 1 0"
        ]
    );
    assert_eq!(stat(&trace, "smaps_parser_errors"), 1);
}

#[test]
fn callstacks_share_the_callsites_of_a_common_prefix() {
    let stack = |iid: u32, frames: &[u32]| {
        let frames: Vec<_> = frames
            .iter()
            .map(|iid| format!("frame_ids: {iid}"))
            .collect();
        format!("callstacks {{ iid: {iid} {} }}", frames.join(" "))
    };
    let stacks: [&[u32]; 6] = [
        &[1, 2, 1],
        &[1, 1, 2],
        &[1, 2, 2],
        &[2],
        &[1, 1],
        &[1, 1, 2, 1],
    ];
    let (mut interned, mut samples) = (String::new(), String::new());
    for (iid, frames) in (10..).zip(stacks) {
        interned += &stack(iid, frames);
        let fields = format!("pid: 5 tid: 5 callstack_iid: {iid}");
        samples += &sample(u64::from(iid), &fields);
    }
    let more = format!(
        "packet {{ trusted_packet_sequence_id: 1 timestamp: 2 interned_data {{ {interned} }} }}"
    );
    let trace = import(&(SESSION.to_owned() + &more + &samples));
    assert_eq!(
        rows(&trace, "stack_profile_callsite", "depth parent_id frame_id"),
        [
            "0 NULL 0", "1 0 1", "2 1 0", "1 0 0", "2 3 1", "2 1 1", "0 NULL 1", "3 4 0"
        ]
    );
    assert_eq!(
        rows(&trace, "profiler_sample", "callsite_id"),
        ["2", "4", "5", "6", "3", "7"]
    );
}

#[test]
fn samples_of_a_reused_tid_belong_to_another_thread() {
    let at = |ts| sample(ts, "pid: 5 tid: 6");
    let event = |ts: u64, event: &str| {
        format!(
            "packet {{ ftrace_events {{ cpu: 0 event {{ timestamp: {ts} pid: 1 {event} }} }} }}"
        )
    };
    let ends = event(30, r#"sched_process_free { pid: 5 comm: "a" prio: 120 }"#);
    let begins = event(60, r#"task_newtask { pid: 5 comm: "b" clone_flags: 0 }"#);
    let trace = import(
        &(SESSION.to_owned() + &[10, 20, 40, 50, 70, 80].map(at).join("") + &(ends + &begins)),
    );
    let contexts = rows(&trace, "profiler_task_context", "upid utid");
    assert_eq!(contexts.len(), 3, "{contexts:?}");
    assert_eq!(
        rows(&trace, "profiler_sample", "task_context_id"),
        ["0", "0", "1", "1", "2", "2"]
    );
}

#[test]
fn temporary_programs_without_a_build_id_are_counted() {
    let of = |build_id: &str| {
        let trace = import(&format!(
            "packet {{ trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 1
                interned_data {{
                    build_ids {{ iid: 1 str: \"{build_id}\" }}
                    mapping_paths {{ iid: 1 str: \"data\" }} mapping_paths {{ iid: 2 str: \"local\" }}
                    mapping_paths {{ iid: 3 str: \"tmp\" }} mapping_paths {{ iid: 4 str: \"test\" }}
                    mappings {{ iid: 1 build_id: 1 path_string_ids: 1 path_string_ids: 2
                        path_string_ids: 3 path_string_ids: 4 }}
                    frames {{ iid: 1 mapping_id: 1 rel_pc: 16 }}
                    callstacks {{ iid: 1 frame_ids: 1 }} }}
                perf_sample {{ pid: 5 tid: 5 callstack_iid: 1 }} }}"
        ));
        stat(&trace, "symbolization_tmp_build_id_not_found")
    };
    assert_eq!(of(""), 1);
    assert_eq!(of("\\001"), 0);
}
