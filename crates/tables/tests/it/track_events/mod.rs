//! Track events in tables.

mod old;
mod tracks;

use crate::common::{args, import, rows, stat};
use ferretto_tables::Trace;

/// The descriptor of a thread's track, with its name.
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

/// Returns the arguments of a slice.
fn slice_args(trace: &Trace, slice: u32) -> Vec<String> {
    args(trace, trace.tables().slice.arg_set_id().get(slice))
}

/// Returns the name and type of the track of each slice.
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
fn query_030_open_slices_stay_open_and_unmatched_ends_are_ignored() {
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
fn query_031_adjacent_slices_are_siblings_and_instants_nest() {
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
    // An annotation without a name is an error.
    assert_eq!(stat(&trace, "track_event_parser_errors"), 1);
}

#[test]
fn query_006_flat_keys_have_no_indexes() {
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
    // An extension of TrackEvent with the number 2000: an enum with one value.
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
    let mut bytes = crate::common::encode(THREAD);
    ferretto_wire::Encoder::new(&mut bytes).nested(1, |packet| {
        packet.nested(72, |extension| extension.bytes(1, &set));
    });
    bytes.extend(event(1, 1));
    bytes.extend(event(2, 9));
    let trace = crate::common::import_bytes(&bytes);
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
fn query_056_flows_lead_to_the_newer_slice_in_any_order_of_the_file() {
    let (older, newer) = (flowing(10, "flow_ids: 1"), flowing(30, "flow_ids: 1"));
    for events in [format!("{older}{newer}"), format!("{newer}{older}")] {
        let trace = import(&(THREAD.to_owned() + &events));
        assert_eq!(rows(&trace, "slice", "ts"), ["10", "30"]);
        assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["0 1"]);
    }
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

#[test]
fn lists_of_a_trace_rename_slices_tracks_and_hashes() {
    let trace = import(
        &[
            "packet { translation_table { slice_name { raw_to_deobfuscated_name { key: \"a\" value: \"alpha\" } } } }
             packet { translation_table { process_track_name {
                raw_to_deobfuscated_name { key: \"p\" value: \"pipeline\" } } } }
             packet { translation_table { chrome_histogram { hash_to_name { key: 9 value: \"latency\" } } } }",
            THREAD,
            &descriptor("uuid: 2 process { pid: 5 }"),
            &descriptor("uuid: 3 parent_uuid: 2 name: \"p\""),
            &begin(10, 3, "a"),
            &event(20, "type: TYPE_SLICE_END track_uuid: 3 name: \"a\""),
            &event(
                30,
                "type: TYPE_INSTANT track_uuid: 1 name: \"b\" chrome_histogram_sample { name_hash: 9 }",
            ),
        ]
        .join("\n"),
    );
    assert_eq!(slices(&trace), ["10 10 alpha 0 NULL", "30 0 b 0 NULL"]);
    assert!(tracks_of_slices(&trace)[0].starts_with("pipeline "));
    assert!(slice_args(&trace, 1).contains(&"chrome_histogram_sample.name=\"latency\"".to_owned()));
}
