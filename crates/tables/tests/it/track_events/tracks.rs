//! The tracks of events, and the counters on them.

use ferretto_tables::Trace;

use super::{THREAD, begin, descriptor, end, event, instant, tracks_of_slices};
use crate::common::{args, import, rows, stat};

#[test]
fn query_040_events_without_a_described_track_have_a_default_track() {
    let trace = import(
        &("packet { trusted_packet_sequence_id: 1 incremental_state_cleared: true }\n".to_owned()
            + &event(1, "type: TYPE_INSTANT name: \"a\"")
            + &instant(2, 77, "b")
            + &instant(3, 78, "b")),
    );
    assert_eq!(
        tracks_of_slices(&trace),
        [
            "Default Track global_merged_track_event",
            "b global_merged_track_event",
            "b global_merged_track_event"
        ]
    );
    // Both are merged by their name.
    assert_eq!(rows(&trace, "slice", "track_id"), ["0", "1", "1"]);
}

#[test]
fn query_041_threads_share_their_track_with_the_system() {
    let trace = import(
        &(THREAD.to_owned()
            + &descriptor(
                "uuid: 2 name: \"own\" disallow_merging_with_system_tracks: true thread { pid: 5 tid: 8 }",
            )
            + &instant(1, 1, "a")
            + &instant(2, 2, "b")),
    );
    assert_eq!(
        tracks_of_slices(&trace),
        [" thread_execution", "own thread_track_event"]
            .map(|text| text.replace(" thread_execution", "NULL thread_execution"))
    );
}

#[test]
fn query_042_child_tracks_of_processes_keep_their_process() {
    let trace = import(
        &(THREAD.to_owned()
            + &descriptor("uuid: 2 process { pid: 5 process_name: \"app\" }")
            + &descriptor("uuid: 3 parent_uuid: 2 name: \"child\"")
            + &descriptor("uuid: 4 parent_uuid: 3 name: \"grandchild\"")
            + &instant(1, 3, "a")
            + &instant(2, 4, "b")),
    );
    let of = rows(&trace, "slice", "track_id");
    let all = rows(&trace, "track", "name parent_id upid");
    let child: usize = of[0].parse().expect("id");
    let grandchild: usize = of[1].parse().expect("id");
    assert_eq!(all[child], "child NULL 1");
    assert_eq!(all[grandchild], format!("grandchild {child} 1"));
    assert_eq!(rows(&trace, "process", "pid name")[1], "5 app");
}

#[test]
fn query_043_siblings_of_one_name_are_lanes() {
    let lanes = |merging: &str| {
        import(
            &(THREAD.to_owned()
                + &descriptor(&format!("uuid: 2 name: \"net\" {merging}"))
                + &descriptor(&format!("uuid: 3 name: \"net\" {merging}"))
                + &begin(1, 2, "a")
                + &begin(2, 3, "b")
                + &end(5, 2)
                + &end(6, 3)
                + &begin(7, 3, "c")),
        )
    };
    let merged = lanes("");
    assert_eq!(
        rows(&merged, "slice", "name dur track_id"),
        ["a 4 0", "b 4 1", "c -1 1"]
    );
    assert_eq!(rows(&merged, "track", "track_group_id"), ["0", "0"]);
    let apart = lanes("sibling_merge_behavior: SIBLING_MERGE_BEHAVIOR_NONE");
    assert_eq!(
        rows(&apart, "slice", "name track_id"),
        ["a 0", "b 1", "c 1"]
    );
    assert_eq!(
        rows(&apart, "track", "type track_group_id"),
        ["global_track_event NULL", "global_track_event NULL"]
    );
}

#[test]
fn query_044_a_second_uuid_of_a_thread_is_another_thread() {
    let trace = import(
        &(THREAD.to_owned()
            + &descriptor("uuid: 2 thread { pid: 5 tid: 7 }")
            + &instant(1, 1, "a")
            + &instant(2, 2, "b")),
    );
    assert_eq!(rows(&trace, "thread", "tid upid")[2..], ["7 1", "7 1"]);
    assert_eq!(rows(&trace, "slice", "track_id"), ["0", "1"]);
}

#[test]
fn query_045_tracks_with_faulty_parents_have_no_events() {
    let mut text = THREAD.to_owned()
        + &descriptor("uuid: 3 parent_uuid: 99 name: \"child\"")
        + &descriptor("uuid: 4 parent_uuid: 5 name: \"a\"")
        + &descriptor("uuid: 5 parent_uuid: 4 name: \"b\"");
    for uuid in 1000..1200 {
        text += &descriptor(&format!("uuid: {uuid} parent_uuid: {}", uuid + 1));
    }
    let trace =
        import(&(text + &instant(1, 3, "a") + &instant(2, 4, "b") + &instant(3, 1000, "c")));
    assert_eq!(trace.tables().slice.len(), 0);
    assert!(stat(&trace, "track_hierarchy_missing_uuid") > 0);
    assert!(stat(&trace, "track_event_track_hierarchy_loop") > 0);
    assert!(stat(&trace, "track_event_track_hierarchy_too_deep") > 0);
    assert!(stat(&trace, "track_event_parser_errors") > 2);
}

fn counter(ts: u64, value: i64) -> String {
    event(
        ts,
        &format!("type: TYPE_COUNTER track_uuid: 2 counter_value: {value}"),
    )
}

#[test]
fn query_046_incremental_counters_add_to_the_last_value() {
    let text = THREAD.to_owned()
        + &descriptor(
            "uuid: 2 name: \"n\" counter { unit: UNIT_SIZE_BYTES unit_multiplier: 1000 is_incremental: true }",
        )
        + &counter(1, 1)
        + &counter(2, 2)
        + "packet { trusted_packet_sequence_id: 1 incremental_state_cleared: true }\n"
        + &counter(3, 5);
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "counter", "ts value"),
        ["1 1000", "2 3000", "3 5000"]
    );
    assert_eq!(
        rows(&trace, "track", "name type counter_unit"),
        ["n global_counter_track_event bytes"]
    );
}

#[test]
fn query_047_a_counter_needs_its_descriptor_first() {
    let trace = import(&(THREAD.to_owned() + &counter(1, 1) + &descriptor("uuid: 2 counter {}")));
    assert_eq!(trace.tables().counter.len(), 0);
    assert_eq!(stat(&trace, "track_event_counter_invalid_track_uuid"), 1);
}

#[test]
fn query_048_thread_time_comes_from_a_counter() {
    let trace = import(
        &(THREAD.to_owned()
            + &descriptor("uuid: 2 parent_uuid: 1 counter { type: COUNTER_THREAD_TIME_NS }")
            + r#"packet { trusted_packet_sequence_id: 1 timestamp: 0
                trace_packet_defaults { track_event_defaults { extra_counter_track_uuids: 2 } } }"#
            + &event(
                1,
                "type: TYPE_SLICE_BEGIN track_uuid: 1 name: \"a\" extra_counter_values: 100",
            )
            + &event(
                9,
                "type: TYPE_SLICE_END track_uuid: 1 extra_counter_values: 104",
            )
            + &event(
                10,
                "type: TYPE_INSTANT track_uuid: 1 name: \"b\" extra_counter_values: [1,2,3,4,5,6,7,8,9] extra_counter_track_uuids: [2,2,2,2,2,2,2,2,2]",
            )),
    );
    assert_eq!(
        rows(&trace, "slice", "name thread_ts thread_dur"),
        ["a 100 4"]
    );
    assert_eq!(rows(&trace, "counter", "ts value"), ["1 100", "9 104"]);
    assert_eq!(stat(&trace, "track_event_extra_counter_exceeds_max"), 1);
}

#[test]
fn threads_of_sandboxes_have_tids_of_their_own() {
    let trace = import(&[
        "packet { trusted_packet_sequence_id: 1 incremental_state_cleared: true timestamp: 0
            track_descriptor { uuid: 1 thread { pid: 5 tid: 1 thread_name: \"inner\" }
                chrome_thread { is_sandboxed_tid: true } } }\n"
            .to_owned(),
        descriptor("uuid: 2 thread { pid: 6 tid: 1 thread_name: \"outer\" }"),
        descriptor(
            "uuid: 3 process { pid: 5 } chrome_process { host_app_package_name: \"app\" crash_trace_id: 9 }",
        ),
    ]
    .concat());
    let threads = rows(&trace, "thread", "tid name");
    for expected in ["21474836481 inner", "1 outer"] {
        assert!(
            threads.contains(&expected.to_owned()),
            "{expected}: {threads:?}"
        );
    }
    let pids = rows(&trace, "process", "pid");
    let process = pids.iter().position(|pid| pid == "5").expect("a process");
    let set = trace.tables().process.arg_set_id().get(process as u32);
    assert_eq!(
        args(&trace, set),
        [
            "chrome.host_app_package_name=\"app\"",
            "chrome.crash_trace_id=9u"
        ]
    );
}

#[test]
fn events_before_the_range_of_interest_can_be_left_out() {
    let text = [
        "packet { track_event_range_of_interest { start_us: 3 } }\n".to_owned(),
        THREAD.to_owned(),
        instant(2000, 1, "early"),
        instant(4000, 1, "late"),
    ]
    .concat();
    let names = |crop_track_events| {
        let options = ferretto_tables::Options {
            crop_track_events,
            ..Default::default()
        };
        let bytes = crate::common::encode(&text);
        let trace = Trace::read(&bytes[..], &options).expect("a trace");
        let left_out = stat(
            &trace,
            "track_event_dropped_packets_outside_of_range_of_interest",
        );
        (rows(&trace, "slice", "name"), left_out)
    };
    assert_eq!(names(false), (vec!["early".into(), "late".into()], 0));
    assert_eq!(names(true), (vec!["late".into()], 1));
}
