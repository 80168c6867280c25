//! GPUs: their counters, and the work that they execute.

use crate::common::{args, import, rows, stat};
use ferretto_proto::fields::{trace_packet, track_event};
use ferretto_wire::encode;

/// Returns a packet with an event of GPU counters.
fn counters(ts: u64, event: &str) -> String {
    format!(
        "packet {{ timestamp: {ts} trusted_packet_sequence_id: 1
            gpu_counter_event {{ {event} }} }}"
    )
}

#[test]
fn a_counter_value_belongs_to_the_time_before_unless_it_looks_forwards() {
    let trace = import(&format!(
        "{} {} {}",
        counters(
            1,
            "gpu_id: 2 counter_descriptor {
                specs { counter_id: 7 name: \"reads\" description: \"of memory\"
                    numerator_units: BYTE denominator_units: SECOND groups: MEMORY }
                specs { counter_id: 8 name: \"clock\" value_direction: VALUE_DIRECTION_FORWARDS_LOOKING }
                specs { counter_id: 9 } }"
        ),
        counters(
            10,
            "counters { counter_id: 7 int_value: 5 } counters { counter_id: 8 double_value: 1.5 }"
        ),
        counters(20, "counters { counter_id: 7 int_value: 6 }"),
    ));
    assert_eq!(
        rows(&trace, "track", "type name counter_unit"),
        ["gpu_counter reads B/s", "gpu_counter clock NULL"]
    );
    assert_eq!(
        rows(&trace, "counter", "ts track_id value"),
        ["10 0 6", "10 1 1.5", "20 0 0"]
    );
    assert_eq!(
        rows(&trace, "gpu_counter_group", "group_id track_id name"),
        ["5 0 NULL", "0 1 NULL"]
    );
    assert_eq!(rows(&trace, "gpu", "gpu"), ["2"]);
    // The third counter has no name.
    assert_eq!(stat(&trace, "gpu_counters_invalid_spec"), 1);
    let source = trace.tables().track.source_arg_set_id().get(0);
    assert_eq!(args(&trace, source), ["description=\"of memory\""]);
}

#[test]
fn interned_counters_belong_to_their_sequence() {
    let on = |sequence: u32, gpu: u32| {
        format!(
            "packet {{ trusted_packet_sequence_id: {sequence} sequence_flags: 1 timestamp: 5
                interned_data {{ gpu_counter_descriptors {{ iid: 1 gpu_id: {gpu} counter_descriptor {{
                    specs {{ counter_id: 1 name: \"busy\" value_direction: VALUE_DIRECTION_FORWARDS_LOOKING }}
                    counter_groups {{ group_id: 90 name: \"load\" counter_ids: 1 }} }} }} }}
                gpu_counter_event {{ counter_descriptor_iid: 1
                    counters {{ counter_id: 1 int_value: {sequence} }}
                    counters {{ counter_id: 2 int_value: 0 }} }} }}"
        )
    };
    let trace = import(&format!("{} {}", on(3, 0), on(4, 1)));
    assert_eq!(rows(&trace, "counter", "track_id value"), ["0 3", "1 4"]);
    assert_eq!(
        rows(&trace, "gpu_counter_group", "group_id track_id name"),
        ["0 0 NULL", "90 0 load", "0 1 NULL", "90 1 load"]
    );
    assert_eq!(stat(&trace, "gpu_counters_invalid_spec"), 2);
}

#[test]
fn counter_values_without_a_time_are_counted() {
    let trace = import(
        "packet { gpu_counter_event { counter_descriptor { specs { counter_id: 1 name: \"a\" } } } }
         packet { gpu_counter_event { counters { counter_id: 1 int_value: 3 } } }",
    );
    assert_eq!(trace.tables().counter.len(), 0);
    assert_eq!(stat(&trace, "gpu_counters_missing_timestamp"), 1);
}

#[test]
fn gpus_have_the_properties_of_their_drivers() {
    let trace = import(
        "packet { gpu_info { gpus { name: \"one\" vendor: \"maker\" uuid: \"\\x0a\\xff\"
            extra_info { key: \"driver\" value: \"5\" } } gpus { pci_bdf: \"0000:03:00.0\" } } }",
    );
    assert_eq!(
        rows(&trace, "gpu", "gpu name vendor uuid pci_bdf"),
        ["0 one maker 0aff NULL", "1 NULL NULL NULL 0000:03:00.0"]
    );
    let set = trace.tables().gpu.arg_set_id().get(0);
    assert_eq!(args(&trace, set), ["driver=\"5\""]);
}

#[test]
fn queues_are_tracks_and_get_names_of_later_descriptions() {
    let stage = |ts: u64, event: &str| {
        format!(
            "packet {{ timestamp: {ts} gpu_render_stage_event {{ event_id: {ts} duration: 4 {event} }} }}"
        )
    };
    let trace = import(&[
        stage(1, "hw_queue_id: 0 stage_id: 1"),
        stage(
            10,
            "hw_queue_id: 0 stage_id: 1 render_subpass_index_mask: 5 render_subpass_index_mask: 2
             render_target_handle: 30 specifications {
                hw_queue { name: \"copies\" description: \"of images\" }
                stage { name: \"read\" } stage { name: \"write\" description: \"back\" } }",
        ),
        // Overlapping stages are on tracks of their own.
        stage(12, "hw_queue_id: 0 stage_id: 0 name: \"shadow\" submission_id: 3"),
    ]
    .join(" "));
    assert_eq!(
        rows(&trace, "track", "type name"),
        [
            "gpu_render_stage copies",
            "gpu_render_stage copies",
            "gpu_render_stage copies"
        ]
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur track_id name"),
        ["1 4 0 render stage(1)", "10 4 1 write", "12 4 2 shadow"]
    );
    let set = trace.tables().slice.arg_set_id().get(1);
    let all = args(&trace, set);
    for expected in [
        "description=\"back\"",
        "render_target=30u",
        "render_subpasses=\"0,2,65\"",
        "hw_queue_id=0u",
    ] {
        assert!(all.contains(&expected.to_owned()), "{expected}: {all:?}");
    }
}

#[test]
fn kernels_have_their_launch_parameters_and_context() {
    let trace = import(
        "packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 5
            interned_data {
                graphics_contexts { iid: 4 pid: 70 api: CUDA }
                gpu_specifications { iid: 1 name: \"queue\" }
                gpu_specifications { iid: 2 name: \"kernel\" category: COMPUTE } }
            gpu_render_stage_event { event_id: 1 duration: 2 context: 4 hw_queue_iid: 1 stage_iid: 2
                launch { grid_size { x: 8 } workgroup_size { y: 2 }
                    args { name: \"shared\" uint_value: 16 } } } }
         packet { trusted_packet_sequence_id: 1 timestamp: 9
            gpu_render_stage_event { event_id: 2 hw_queue_iid: 3 } }",
    );
    assert_eq!(
        rows(&trace, "gpu_context", "context_id pid api"),
        ["4 70 CUDA"]
    );
    // A queue with an unknown iid is not shown.
    assert_eq!(rows(&trace, "slice", "ts name"), ["5 kernel"]);
    let set = trace.tables().slice.arg_set_id().get(0);
    let all = args(&trace, set);
    for expected in [
        "render_stage_category=2",
        "launch.grid_size.x=8u",
        "launch.workgroup_size.y=2u",
        "shared=16u",
        "context_id=4u",
    ] {
        assert!(all.contains(&expected.to_owned()), "{expected}: {all:?}");
    }
    assert!(rows(&trace, "process", "pid").contains(&"70".to_owned()));
}

#[test]
fn work_flows_from_its_dependencies() {
    let trace = import(
        "packet { timestamp: 5 gpu_render_stage_event { event_id: 1 duration: 2 } }
         packet { timestamp: 9 gpu_render_stage_event { event_id: 2 duration: 2 event_wait_ids: 1 event_wait_ids: 3 } }
         packet { timestamp: 12 gpu_render_stage_event { event_id: 3 duration: 2 } }",
    );
    assert_eq!(
        rows(&trace, "flow", "slice_out slice_in trace_id"),
        ["0 1 NULL", "2 1 NULL"]
    );
}

#[test]
fn calls_of_vulkan_and_messages_of_drivers_are_slices() {
    let trace = import(
        "packet { timestamp: 3 vulkan_api_event {
            vk_debug_utils_object_name { object_type: 24 object: 6 object_name: \"screen\" } } }
         packet { timestamp: 4 vulkan_api_event { vk_queue_submit { duration_ns: 2 pid: 7 tid: 8
            vk_command_buffers: 100 vk_command_buffers: 200 submission_id: 1 } } }
         packet { timestamp: 7 gpu_render_stage_event { event_id: 1 render_target_handle: 6 } }
         packet { timestamp: 8 gpu_log { severity: LOG_SEVERITY_WARNING tag: \"fan\" log_message: \"hot\" } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        ["4 2 vkQueueSubmit", "7 0 render stage(0)", "8 0 WARNING"]
    );
    let set = |row| args(&trace, trace.tables().slice.arg_set_id().get(row));
    assert!(set(0).contains(&"command_buffers[1]=200u".to_owned()));
    assert!(set(1).contains(&"render_target_name=\"screen\"".to_owned()));
    assert_eq!(set(2), ["tag=\"fan\"", "message=\"hot\""]);
}

#[test]
fn track_events_flow_to_the_work_they_submit_and_from_the_work_they_await() {
    /// The extension of `TrackEvent` with ids of work.
    const CORRELATION: u32 = 3000;
    let instant = |ts: u64, field: u32| {
        encode(|trace| {
            trace.nested(1, |packet| {
                packet.varint(trace_packet::TIMESTAMP, ts);
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
                packet.varint(trace_packet::SEQUENCE_FLAGS, 1);
                packet.nested(trace_packet::TRACK_EVENT, |event| {
                    event.varint(track_event::TYPE, 3);
                    event.string(track_event::NAME, "call");
                    event.nested(CORRELATION, |correlation| correlation.varint(field, 1));
                });
            });
        })
    };
    let mut trace = instant(5, 1);
    trace.extend(crate::common::encode(
        "packet { timestamp: 9 gpu_render_stage_event { event_id: 1 duration: 2 } }",
    ));
    trace.extend(instant(12, 2));
    let trace = crate::common::import_bytes(&trace);
    assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["0 1", "1 2"]);
}
