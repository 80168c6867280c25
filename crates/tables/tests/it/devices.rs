//! Kernel events of drivers of devices.

use crate::common::{args, import, rows};

fn on_cpu(events: &str) -> ferretto_tables::Trace {
    import(&format!(
        "packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: 0 {events} }} }}"
    ))
}

#[test]
fn a_wake_up_source_that_is_active_twice_is_one_slice() {
    let trace = on_cpu(
        "event { timestamp: 10 pid: 1 wakeup_source_activate { name: \"lid\" } }
         event { timestamp: 20 pid: 1 wakeup_source_activate { name: \"lid\" } }
         event { timestamp: 30 pid: 1 wakeup_source_deactivate { name: \"lid\" } }
         event { timestamp: 40 pid: 1 wakeup_source_deactivate { name: \"lid\" } }
         event { timestamp: 50 pid: 1 suspend_resume_minimal { start: 1 } }
         event { timestamp: 60 pid: 1 suspend_resume_minimal { start: 0 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        ["10 30 Wakelock(lid)", "50 10 Suspended"]
    );
}

#[test]
fn commands_to_virtual_gpus_are_slices_with_latencies() {
    let trace = on_cpu(
        "event { timestamp: 10 pid: 1 virtio_gpu_cmd_queue { name: \"control\" num_free: 9 seqno: 4 type: 519 } }
         event { timestamp: 15 pid: 1 virtio_gpu_cmd_queue { name: \"control\" num_free: 8 seqno: 5 type: 256 fence_id: 1 } }
         event { timestamp: 30 pid: 1 virtio_gpu_cmd_response { name: \"control\" num_free: 9 seqno: 4 } }
         event { timestamp: 40 pid: 1 virtio_gpu_cmd_response { name: \"control\" num_free: 10 seqno: 5 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        ["10 20 SUBMIT_3D", "15 25 GET_DISPLAY_INFO"]
    );
    let tracks = rows(&trace, "track", "name");
    let latencies: Vec<_> = rows(&trace, "counter", "ts track_id value")
        .into_iter()
        .filter(|row| {
            let track = row.split(' ').nth(1).expect("a track");
            tracks[track.parse::<usize>().expect("a number")] == "Virtgpu Control Latency"
        })
        .map(|row| row.rsplit(' ').next().expect("a value").to_owned())
        .collect();
    // The command with a fence has none.
    assert_eq!(latencies, ["20"]);
}

#[test]
fn resources_and_commands_of_virtual_video_devices_are_slices() {
    let trace = on_cpu(
        "event { timestamp: 10 pid: 1 virtio_video_resource_queue { stream_id: 2 queue_type: 256 resource_id: 3 } }
         event { timestamp: 11 pid: 1 virtio_video_cmd { stream_id: 2 type: 257 } }
         event { timestamp: 30 pid: 1 virtio_video_resource_queue_done { stream_id: 2 queue_type: 256
            resource_id: 3 data_size0: 7 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        ["10 20 Resource #3", "11 100000 STREAM_CREATE"]
    );
    assert_eq!(
        rows(&trace, "track", "name"),
        [
            "virtio_video stream #2 INPUT",
            "virtio_video stream #2 Requests"
        ]
    );
    let set = crate::common::arg_set(&trace.tables().slice, "arg_set_id", 0);
    assert!(args(&trace, set).contains(&"data_size0=7".to_owned()));
}

#[test]
fn returned_video_buffers_follow_their_queueing() {
    let trace = on_cpu(
        "event { timestamp: 10 pid: 6 v4l2_qbuf { minor: 1 index: 2 type: 1 sequence: 0 } }
         event { timestamp: 20 pid: 6 v4l2_dqbuf { minor: 1 index: 2 type: 1 sequence: 0 bytesused: 50 } }
         event { timestamp: 30 pid: 6 vb2_v4l2_buf_done { minor: 1 sequence: 4 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "category name"),
        [
            "Video 4 Linux 2 VIDIOC_QBUF minor=1 seq=0 type=1 index=2",
            "Video 4 Linux 2 VIDIOC_DQBUF minor=1 seq=0 type=1 index=2",
            "Video 4 Linux 2 vb2_v4l2_buf_done minor=1 seq=4 type=0 index=0",
        ]
    );
    assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["0 1"]);
    let set = crate::common::arg_set(&trace.tables().slice, "arg_set_id", 1);
    assert!(args(&trace, set).contains(&"type=\"VIDEO_CAPTURE\"".to_owned()));
}

#[test]
fn values_of_sensors_have_their_delay() {
    let trace = on_cpu(
        "event { timestamp: 10 pid: 6 cros_ec_sensorhub_data { current_time: 90 current_timestamp: 50
            ec_sensor_num: 3 fifo_timestamp: 70 } }",
    );
    assert_eq!(rows(&trace, "counter", "ts value"), ["10 40"]);
    assert_eq!(
        rows(&trace, "track", "name"),
        ["cros_ec.cros_ec_sensorhub_data.3"]
    );
}

#[test]
fn the_times_of_a_cpu_in_the_hypervisor_have_their_reason() {
    let trace = on_cpu(
        "event { timestamp: 10 pid: 1 hypervisor_hyp_enter { } }
         event { timestamp: 11 pid: 1 hypervisor_host_smc { id: 7 forwarded: 1 } }
         event { timestamp: 15 pid: 1 hypervisor_hyp_exit { } }
         event { timestamp: 20 hyp_enter { } }
         event { timestamp: 30 hyp_exit { } }
         event { timestamp: 40 pid: 1 host_hcall { id: 9 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur category name"),
        ["10 5 pkvm_hyp hyp", "20 10 pkvm_hyp hyp"]
    );
    assert_eq!(
        rows(&trace, "track", "type name cpu"),
        ["pkvm_hypervisor pkVM Hypervisor CPU 0 0"]
    );
    let of = |row| {
        args(
            &trace,
            crate::common::arg_set(&trace.tables().slice, "arg_set_id", row),
        )
    };
    assert_eq!(
        of(0),
        ["hyp_enter_reason=\"host_smc\"", "id=7u", "forwarded=1u"]
    );
    assert!(of(1).is_empty());
}
