//! Track events in tables.

mod common;

use common::{args, import, rows, stat};
use ferretto_tables::Trace;

/// A thread's track, and its name.
const THREAD: &str = r#"
    packet { trusted_packet_sequence_id: 1 incremental_state_cleared: true timestamp: 0
        track_descriptor { uuid: 1 thread { pid: 5 tid: 7 thread_name: "worker" } } }"#;

fn event(ts: u64, event: &str) -> String {
    format!(
        "packet {{ trusted_packet_sequence_id: 1 timestamp: {ts} track_event {{ {event} }} }}\n"
    )
}

fn begin(ts: u64, track: u64, name: &str) -> String {
    event(
        ts,
        &format!("type: TYPE_SLICE_BEGIN track_uuid: {track} name: \"{name}\""),
    )
}

fn end(ts: u64, track: u64) -> String {
    event(ts, &format!("type: TYPE_SLICE_END track_uuid: {track}"))
}

fn instant(ts: u64, track: u64, name: &str) -> String {
    event(
        ts,
        &format!("type: TYPE_INSTANT track_uuid: {track} name: \"{name}\""),
    )
}

fn descriptor(text: &str) -> String {
    format!(
        "packet {{ trusted_packet_sequence_id: 1 timestamp: 0 track_descriptor {{ {text} }} }}\n"
    )
}

fn slices(trace: &Trace) -> Vec<String> {
    rows(trace, "slice", "ts dur name depth parent_id")
}

/// The arguments of a slice.
fn slice_args(trace: &Trace, slice: u32) -> Vec<String> {
    args(trace, trace.tables().slice.arg_set_id().get(slice))
}

/// The name and type of the track of each slice.
fn tracks_of_slices(trace: &Trace) -> Vec<String> {
    let all = rows(trace, "track", "name type");
    let of = rows(trace, "slice", "track_id");
    of.iter()
        .map(|id| all[id.parse::<usize>().expect("id")].clone())
        .collect()
}

#[test]
fn query_029_slices_nest() {
    let trace = import(
        &(THREAD.to_owned()
            + &begin(0, 1, "outer")
            + &begin(5, 1, "inner")
            + &end(10, 1)
            + &end(20, 1)),
    );
    assert_eq!(slices(&trace), ["0 20 outer 0 NULL", "5 5 inner 1 0"]);
    let threads = rows(&trace, "thread", "id tid name upid is_main_thread");
    assert_eq!(threads[1..], ["1 5 NULL 1 1", "2 7 worker 1 0"]);
    assert_eq!(rows(&trace, "track", "type utid"), ["thread_execution 2"]);
    assert_eq!(rows(&trace, "trace_bounds", "start_ts end_ts"), ["0 20"]);
}

#[test]
fn query_030_open_slices_stay_open_and_ends_alone_are_nothing() {
    let trace = import(
        &(THREAD.to_owned()
            + &end(1, 1)
            + &begin(2, 1, "open")
            + &begin(3, 1, "child")
            + &end(4, 1)),
    );
    assert_eq!(slices(&trace), ["2 -1 open 0 NULL", "3 1 child 1 0"]);
    assert_eq!(stat(&trace, "misplaced_end_event"), 0);
}

#[test]
fn query_031_slices_that_touch_are_siblings_and_instants_nest() {
    let trace = import(
        &(THREAD.to_owned()
            + &begin(0, 1, "a")
            + &end(5, 1)
            + &begin(5, 1, "b")
            + &end(7, 1)
            + &instant(9, 1, "c")
            + &instant(9, 1, "d")),
    );
    assert_eq!(
        slices(&trace),
        ["0 5 a 0 NULL", "5 2 b 0 NULL", "9 0 c 0 NULL", "9 0 d 1 2"]
    );
}

fn whole(ts: u64, us: u64, name: &str) -> String {
    event(
        ts,
        &format!("track_uuid: 1 name: \"{name}\" legacy_event {{ phase: 88 duration_us: {us} }}"),
    )
}

#[test]
fn query_032_a_slice_that_crosses_an_end_is_dropped() {
    let trace = import(&(THREAD.to_owned() + &whole(0, 10, "a") + &whole(5000, 10, "b")));
    assert_eq!(slices(&trace), ["0 10000 a 0 NULL"]);
    assert_eq!(stat(&trace, "slice_drop_overlapping_complete_event"), 1);
    let log = rows(&trace, "trace_import_logs", "ts arg_set_id");
    assert_eq!(log.len(), 1);
    let set = trace.tables().trace_import_logs.arg_set_id().get(0);
    assert_eq!(
        args(&trace, set),
        [
            "overlap_start=5000",
            "overlap_end=10000",
            "conflicting_slice_name=\"a\"",
            "conflicting_slice_ts=0",
            "conflicting_slice_dur=10000"
        ]
    );
}

#[test]
fn query_033_a_named_end_skips_other_slices() {
    let trace = import(
        &(THREAD.to_owned()
            + &begin(0, 1, "a")
            + &begin(1, 1, "b")
            + &event(5, "type: TYPE_SLICE_END track_uuid: 1 name: \"a\"")
            + &begin(9, 1, "c")),
    );
    assert_eq!(
        slices(&trace),
        ["0 5 a 0 NULL", "1 4 b 1 0", "9 -1 c 0 NULL"]
    );
    assert_eq!(stat(&trace, "misplaced_end_event"), 1);
}

#[test]
fn query_034_an_end_with_a_category_closes_no_slice_without() {
    let trace = import(
        &(THREAD.to_owned()
            + &begin(0, 1, "a")
            + &event(5, "type: TYPE_SLICE_END track_uuid: 1 categories: \"x\"")),
    );
    assert_eq!(slices(&trace), ["0 -1 a 0 NULL"]);
}

#[test]
fn query_035_slices_that_are_too_deep_are_counted() {
    let mut text = THREAD.to_owned();
    for ts in 0..514 {
        text += &begin(ts, 1, "a");
    }
    let trace = import(&text);
    assert_eq!(trace.tables().slice.len(), 512);
    assert_eq!(stat(&trace, "slice_max_depth_exceeded"), 2);
}

#[test]
fn query_039_a_state_has_one_value_at_a_time() {
    let state = |ts, value: &str| {
        let name = match value {
            "" => String::new(),
            value => format!("name: \"{value}\""),
        };
        event(
            ts,
            &format!(
                "type: TYPE_STATE track_uuid: 2 {name} debug_annotations {{ name: \"at{ts}\" int_value: {ts} }}"
            ),
        )
    };
    let trace = import(
        &(THREAD.to_owned()
            + &descriptor("uuid: 2 name: \"power\" state {}")
            + &state(1, "A")
            + &state(2, "A")
            + &state(4, "B")
            + &state(7, "")),
    );
    assert_eq!(rows(&trace, "state", "ts dur value"), ["1 3 A", "4 3 B"]);
    let set = trace.tables().state.arg_set_id().get(0);
    let args = args(&trace, set);
    assert!(args.contains(&"debug.at1=1".to_owned()) && args.contains(&"debug.at2=2".to_owned()));
    assert_eq!(
        rows(&trace, "track", "name type event_type"),
        ["power global_state_track_event state"]
    );
}

#[test]
fn query_040_events_without_a_described_track() {
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
fn query_042_children_of_processes() {
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
fn query_046_counters_count_from_the_last_value() {
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
fn query_049_categories_are_joined() {
    let trace = import(
        &(THREAD.to_owned()
            + r#"packet { trusted_packet_sequence_id: 1 timestamp: 1
                interned_data { event_categories { iid: 1 name: "a" } event_names { iid: 3 name: "n" } }
                track_event { type: TYPE_INSTANT track_uuid: 1 category_iids: 1 categories: "b" name_iid: 3 } }"#
            + &event(2, "type: TYPE_INSTANT track_uuid: 1 category_iids: 7")
            + &event(
                3,
                "type: TYPE_INSTANT track_uuid: 1 category_iids: 7 category_iids: 1",
            )),
    );
    assert_eq!(
        rows(&trace, "slice", "category name"),
        ["a,b n", "unknown(7) NULL", "a NULL"]
    );
}

#[test]
fn query_050_annotations_become_arguments() {
    let trace = import(
        &(THREAD.to_owned()
            + &event(
                1,
                r#"type: TYPE_INSTANT track_uuid: 1 name: "a"
                debug_annotations { name: "x.y[0]" uint_value: 18446744073709551615 }
                debug_annotations { name: "d" dict_entries { name: "e" bool_value: true }
                    dict_entries { name: "f" array_values { double_value: 0.5 } array_values { string_value: "s" } } }
                debug_annotations { name: "n" legacy_json_value: "{\"a\":[1],\"b\":\"t\"}" }
                debug_annotations { name: "p" pointer_value: 255 }
                debug_annotations { name: "o" nested_value { nested_type: DICT dict_keys: "k" dict_values { int_value: 3 } } }
                debug_annotations { int_value: 3 }"#,
            )),
    );
    assert_eq!(
        slice_args(&trace, 0),
        [
            "debug.x_y_0_=18446744073709551615u",
            "debug.d.e=true",
            "debug.d.f[0]=0.5",
            "debug.d.f[1]=\"s\"",
            "debug.n.a[0]=1",
            "debug.n.b=\"t\"",
            "debug.p=0xff",
            "debug.o.k=3"
        ]
    );
    // The one without a name is an error.
    assert_eq!(stat(&trace, "track_event_parser_errors"), 1);
}

#[test]
fn query_006_keys_without_indexes() {
    let trace = import(
        &(THREAD.to_owned()
            + &event(
                1,
                r#"type: TYPE_INSTANT track_uuid: 1
                debug_annotations { name: "a" array_values { int_value: 1 }
                    array_values { dict_entries { name: "b" int_value: 2 } } }"#,
            )),
    );
    assert_eq!(
        rows(&trace, "args", "key flat_key int_value value_type")[1..],
        ["debug.a[0] debug.a 1 int", "debug.a[1].b debug.a.b 2 int"].map(str::to_owned)
    );
}

#[test]
fn query_051_extensions_are_read_by_descriptors_in_the_trace() {
    // An extension of TrackEvent, numbered 2000: an enum with one value.
    let set = {
        use ferretto_wire::Encoder;
        let mut bytes = Vec::new();
        let mut set = Encoder::new(&mut bytes);
        set.nested(1, |file| {
            file.string(2, "test");
            file.nested(5, |kind| {
                kind.string(1, "Kind");
                kind.nested(2, |value| {
                    value.string(1, "FIRST");
                    value.varint(2, 1);
                });
            });
            file.nested(4, |message| {
                message.string(1, "Inner");
                message.nested(2, |field| {
                    field.string(1, "names");
                    field.varint(3, 1);
                    field.varint(4, 3);
                    field.varint(5, 9);
                });
            });
            for (name, number, kind, type_name) in [
                ("kind", 2000, 14, ".test.Kind"),
                ("inner", 2001, 11, ".test.Inner"),
            ] {
                file.nested(7, |field| {
                    field.string(1, name);
                    field.string(2, ".perfetto.protos.TrackEvent");
                    field.varint(3, number);
                    field.varint(4, 1);
                    field.varint(5, kind);
                    field.string(6, type_name);
                });
            }
        });
        bytes
    };
    let event = |ts: u64, kind: u64| {
        let mut bytes = Vec::new();
        let mut trace = ferretto_wire::Encoder::new(&mut bytes);
        trace.nested(1, |packet| {
            packet.varint(10, 1);
            packet.varint(8, ts);
            packet.nested(11, |event| {
                event.varint(9, 3);
                event.varint(11, 1);
                event.varint(2000, kind);
                event.nested(2001, |inner| {
                    inner.string(1, "x");
                    inner.string(1, "y");
                });
                event.varint(2999, 1);
            });
        });
        bytes
    };
    let mut bytes = common::encode(THREAD);
    ferretto_wire::Encoder::new(&mut bytes).nested(1, |packet| {
        packet.nested(72, |extension| extension.bytes(1, &set));
    });
    bytes.extend(event(1, 1));
    bytes.extend(event(2, 9));
    let trace = common::import_bytes(&bytes);
    assert_eq!(
        slice_args(&trace, 0),
        [
            "kind=\"FIRST\"",
            "inner.names[0]=\"x\"",
            "inner.names[1]=\"y\""
        ]
    );
    assert_eq!(slice_args(&trace, 1)[0], "kind=\"9\"");
    assert_eq!(stat(&trace, "unknown_extension_fields"), 2);
}

#[test]
fn query_052_phases_of_old_traces() {
    let legacy = |ts, phase: char, rest: &str| {
        event(
            ts,
            &format!(
                "track_uuid: 1 name: \"n\" categories: \"c\" legacy_event {{ phase: {} {rest} }}",
                phase as u32
            ),
        )
    };
    let trace = import(
        &(THREAD.to_owned()
            + &legacy(1, 'X', "duration_us: 2 thread_duration_us: 1")
            + &legacy(10_000, 'b', "local_id: 5")
            + &legacy(20_000, 'e', "local_id: 5")
            + &legacy(30_000, 'n', "global_id: 6")
            + &legacy(40_000, 'i', "instant_event_scope: SCOPE_GLOBAL")
            + &legacy(50_000, 'i', "instant_event_scope: SCOPE_PROCESS")
            + &legacy(60_000, 'S', "unscoped_id: 9")
            + &legacy(70_000, 'F', "unscoped_id: 9")),
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur"),
        [
            "1 2000",
            "10000 10000",
            "30000 0",
            "40000 0",
            "50000 0",
            "60000 10000"
        ]
    );
    assert_eq!(
        tracks_of_slices(&trace),
        [
            "NULL thread_execution",
            "n legacy_async_process_slice",
            "n legacy_async_global_slice",
            "NULL legacy_chrome_global_instants",
            "NULL chrome_process_instant",
            "n legacy_async_global_slice"
        ]
    );
    assert_eq!(
        slice_args(&trace, 1),
        [
            "legacy_trace_source_id=5",
            "legacy_event.passthrough_utid=2u"
        ]
    );
}

#[test]
fn query_053_events_without_type_or_phase_are_errors() {
    let trace = import(&(THREAD.to_owned() + &event(1, "track_uuid: 1 name: \"a\"")));
    assert_eq!(trace.tables().slice.len(), 0);
    assert_eq!(stat(&trace, "track_event_parser_errors"), 1);
}

fn flowing(ts: u64, rest: &str) -> String {
    event(ts, &format!("type: TYPE_INSTANT track_uuid: 1 {rest}"))
}

#[test]
fn query_054_055_flows_lead_from_slice_to_slice() {
    let trace = import(
        &(THREAD.to_owned()
            + &flowing(10, "flow_ids: 1")
            + &flowing(20, "flow_ids: 1")
            + &flowing(30, "terminating_flow_ids: 1")
            + &flowing(40, "flow_ids: 1")),
    );
    assert_eq!(
        rows(&trace, "flow", "slice_out slice_in trace_id"),
        ["0 1 1", "1 2 1"]
    );
}

#[test]
fn query_058_flows_of_old_traces() {
    let flow = |ts, phase: char, rest: &str| {
        event(
            ts,
            &format!(
                "track_uuid: 1 name: \"n\" categories: \"c\" legacy_event {{ phase: {} unscoped_id: 4 {rest} }}",
                phase as u32
            ),
        )
    };
    let trace = import(
        &(THREAD.to_owned()
            + &begin(0, 1, "a")
            + &flow(1, 't', "")
            + &flow(2, 's', "")
            + &end(3, 1)
            + &flow(4, 'f', "")
            + &begin(5, 1, "b")),
    );
    assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["0 1"]);
    assert_eq!(stat(&trace, "flow_step_without_start"), 1);
    let set = trace.tables().flow.arg_set_id().get(0);
    assert_eq!(args(&trace, set), ["name=\"n\"", "cat=\"c\""]);
}

#[test]
fn arguments_of_begin_and_end_are_one_set() {
    let trace = import(
        &(THREAD.to_owned()
            + &event(
                1,
                r#"type: TYPE_SLICE_BEGIN track_uuid: 1
                debug_annotations { name: "a" int_value: 1 } debug_annotations { name: "b" int_value: 1 }
                debug_annotations { name: "c" array_values { int_value: 1 } }"#,
            )
            + &event(
                5,
                r#"type: TYPE_SLICE_END track_uuid: 1 debug_annotations { name: "b" int_value: 2 } correlation_id: 8
                debug_annotations { name: "c" array_values { int_value: 2 } }"#,
            )),
    );
    let mut all = slice_args(&trace, 0);
    all.sort();
    assert_eq!(
        all,
        [
            "correlation_id=\"tp:#8\"",
            "debug.a=1",
            "debug.b=2",
            "debug.c[0]=1",
            "debug.c[1]=2"
        ]
    );
}

#[test]
fn times_of_old_traces_are_differences() {
    let trace = import(
        r#"packet { trusted_packet_sequence_id: 1 incremental_state_cleared: true
            thread_descriptor { pid: 5 tid: 7 reference_timestamp_us: 1000 reference_thread_time_us: 20 } }
        packet { trusted_packet_sequence_id: 1
            track_event { timestamp_delta_us: 10 thread_time_delta_us: 5 name: "a" legacy_event { phase: 66 } } }
        packet { trusted_packet_sequence_id: 1
            track_event { timestamp_delta_us: 10 thread_time_delta_us: 3 legacy_event { phase: 69 } } }"#,
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name thread_ts thread_dur"),
        ["1010000 10000 a 25000 3000"]
    );
    assert_eq!(
        rows(&trace, "thread", "tid")[1..],
        ["5", "7"].map(str::to_owned)
    );
}

#[test]
fn callstacks_and_log_lines_belong_to_events() {
    let trace = import(
        &(THREAD.to_owned()
            + r#"packet { trusted_packet_sequence_id: 1 timestamp: 1
                interned_data { log_message_body { iid: 1 body: "hello" }
                    source_locations { iid: 2 file_name: "a\\b.rs" function_name: "f" line_number: 3 } }
                track_event { type: TYPE_INSTANT track_uuid: 1 name: "a" source_location_iid: 2
                    log_message { body_iid: 1 source_location_iid: 2 prio: PRIO_WARN }
                    callstack { frames { function_name: "main" } frames { function_name: "f" source_file: "f.rs" line_number: 7 } } } }"#),
    );
    assert_eq!(
        rows(&trace, "logs", "ts prio tag msg"),
        ["1 5 a/b.rs:3 hello"]
    );
    let slice = slice_args(&trace, 0);
    assert_eq!(slice[0], "source.file_name=\"a/b.rs\"");
    assert_eq!(
        rows(
            &trace,
            "track_event_callstacks",
            "slice_id callsite_id end_callsite_id"
        ),
        ["0 1 NULL"]
    );
    assert_eq!(
        rows(&trace, "stack_profile_callsite", "depth parent_id"),
        ["0 NULL", "1 0"]
    );
    assert_eq!(rows(&trace, "stack_profile_frame", "name"), ["main", "f"]);
}
