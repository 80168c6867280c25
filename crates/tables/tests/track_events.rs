//! Track events in tables.

mod common;

use common::{import, rows};

/// A thread's track, and its name.
const THREAD: &str = r#"
    packet { trusted_packet_sequence_id: 1 incremental_state_cleared: true timestamp: 0
        track_descriptor { uuid: 1 thread { pid: 5 tid: 7 thread_name: "worker" } } }"#;

fn event(ts: u64, event: &str) -> String {
    format!(
        "packet {{ trusted_packet_sequence_id: 1 timestamp: {ts} track_event {{ {event} }} }}\n"
    )
}

#[test]
fn query_029_slices_nest() {
    let mut text = THREAD.to_owned();
    text += &event(0, r#"type: TYPE_SLICE_BEGIN track_uuid: 1 name: "outer""#);
    text += &event(5, r#"type: TYPE_SLICE_BEGIN track_uuid: 1 name: "inner""#);
    text += &event(10, "type: TYPE_SLICE_END track_uuid: 1");
    text += &event(20, "type: TYPE_SLICE_END track_uuid: 1");
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "slice", "ts dur name depth parent_id"),
        ["0 20 outer 0 NULL", "5 5 inner 1 0"]
    );
    let threads = rows(&trace, "thread", "id tid name upid is_main_thread");
    assert_eq!(threads[1..], ["1 5 NULL 1 1", "2 7 worker 1 0"]);
    assert_eq!(rows(&trace, "track", "type utid"), ["thread_execution 2"]);
    assert_eq!(rows(&trace, "trace_bounds", "start_ts end_ts"), ["0 20"]);
}
