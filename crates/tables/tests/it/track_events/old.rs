//! Events of old traces: phases, flows, and time differences.

use super::{THREAD, begin, end, event, slice_args, tracks_of_slices};
use crate::common::{args, import, rows, stat};

#[test]
fn query_052_phases_of_old_traces_are_supported() {
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
fn query_058_flows_of_old_traces_are_supported() {
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
