//! Frames of Android, and the buffers with their images.

use crate::common::{import, rows, stat};

fn packets(field: &str, events: &[(i64, &str)]) -> ferretto_tables::Trace {
    let packet = |(ts, event): &(i64, &str)| {
        format!("packet {{ trusted_packet_sequence_id: 1 timestamp: {ts} {field} {{ {event} }} }}")
    };
    import(&events.iter().map(packet).collect::<String>())
}

#[test]
fn frames_are_slices_of_two_timelines_with_a_flow_to_the_display() {
    let trace = packets(
        "frame_timeline_event",
        &[
            (
                10,
                "expected_surface_frame_start { cookie: 1 token: 5 display_frame_token: 6 pid: 100 layer_name: \"a\" }",
            ),
            // The same frame for another layer.
            (
                10,
                "expected_surface_frame_start { cookie: 2 token: 5 display_frame_token: 6 pid: 100 layer_name: \"b\" }",
            ),
            (
                11,
                "actual_surface_frame_start { cookie: 3 token: 5 display_frame_token: 6 pid: 100 jank_type: 64 }",
            ),
            (20, "frame_end { cookie: 1 }"),
            (21, "frame_end { cookie: 2 }"),
            (25, "frame_end { cookie: 3 }"),
            (
                30,
                "actual_display_frame_start { cookie: 4 token: 6 pid: 50 jank_type: 18 present_type: 2 }",
            ),
            (40, "frame_end { cookie: 4 }"),
            (41, "frame_end { cookie: 4 }"),
            (42, "expected_display_frame_start { token: 7 pid: 50 }"),
        ],
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name track_id"),
        ["10 10 5 0", "11 14 5 1", "30 10 6 2"]
    );
    assert_eq!(
        rows(&trace, "track", "name"),
        ["Expected Timeline", "Actual Timeline", "Actual Timeline"]
    );
    assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["1 2"]);
    let tags: Vec<_> = (1..3)
        .map(|row| {
            let set = crate::common::arg_set(&trace.tables().slice, "arg_set_id", row);
            let args = crate::common::args(&trace, set);
            let named = |key: &str| args.iter().find(|arg| arg.starts_with(key)).cloned();
            (named("Jank type="), named("Jank tag="))
        })
        .collect();
    let text = |key: &str, value: &str| Some(format!("{key}={value:?}"));
    assert_eq!(
        tags,
        [
            (
                text("Jank type", "App Deadline Missed"),
                text("Jank tag", "Self Jank")
            ),
            (
                text(
                    "Jank type",
                    "SurfaceFlinger Scheduling, SurfaceFlinger CPU Deadline Missed"
                ),
                text("Jank tag", "Self Jank")
            ),
        ]
    );
    assert_eq!(stat(&trace, "frame_timeline_unpaired_end_event"), 1);
    assert_eq!(stat(&trace, "frame_timeline_event_parser_errors"), 1);
}

#[test]
fn buffers_have_a_slice_for_each_event_and_phase() {
    let event = |kind: &str, frame: u32| {
        format!(
            "buffer_event {{ frame_number: {frame} type: {kind} layer_name: \"l\" buffer_id: 1 }}"
        )
    };
    let events = [
        (1, event("DEQUEUE", 0)),
        (4, event("QUEUE", 9)),
        (6, event("ACQUIRE_FENCE", 9)),
        (8, event("LATCH", 9)),
        (14, event("PRESENT_FENCE", 9)),
        (24, event("PRESENT_FENCE", 10)),
    ];
    let events: Vec<_> = events.iter().map(|(ts, event)| (*ts, &**event)).collect();
    let trace = packets("graphics_frame_event", &events);
    let phases: Vec<_> = rows(&trace, "slice", "ts dur name track_id")
        .into_iter()
        .filter(|row| !row.ends_with(" 0"))
        .collect();
    assert_eq!(
        phases,
        ["1 3 9 1", "4 2 9 2", "8 6 9 3", "14 10 9 4", "24 -1 10 4"]
    );
    assert_eq!(
        rows(&trace, "track", "name"),
        ["Buffer: 1 l", "APP_1 l", "GPU_1 l", "SF_1 l", "Display_l"]
    );
}
